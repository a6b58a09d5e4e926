# Where things go: the program, libmrt with its header, the Lua modules, and
# how other builds find them (pkg-config mrt, find_package(mrt)).
include(CMakePackageConfigHelpers)

install(TARGETS mrt_program RUNTIME DESTINATION ${MRT_INSTALL_BINDIR})
install(TARGETS core_module LIBRARY DESTINATION ${MRT_INSTALL_CDIR}/mrt)
install(TARGETS mrt EXPORT mrt LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES core/mrt.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY core/mrt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY lua/mrt DESTINATION ${MRT_INSTALL_LUADIR}
  FILES_MATCHING PATTERN "*.lua" PATTERN "torch_*.py"
  PATTERN "tokenizer_kinds.py")

# from the .pc file to the prefix, so that an installed tree can be moved
file(RELATIVE_PATH prefix_from_pc
  ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig
  ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(cmake/mrt.pc.in mrt.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/mrt.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/mrt)
write_basic_package_version_file(mrt-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT mrt NAMESPACE mrt:: FILE mrt-config.cmake
  DESTINATION ${package_folder})
install(FILES ${CMAKE_BINARY_DIR}/mrt-config-version.cmake
  DESTINATION ${package_folder})
