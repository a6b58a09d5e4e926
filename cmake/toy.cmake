# The toy device, for specs only: libmrt_toy.so lies beside mrt, where a device's
# library is looked for.
add_library(mrt_toy MODULE spec/device/toy/toy.c spec/device/toy/kernels.c
  spec/device/toy/queue.c)
target_include_directories(mrt_toy PRIVATE core)
set_target_properties(mrt_toy PROPERTIES C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
target_link_libraries(mrt_toy PRIVATE m)
