# Where things go, in components (cmake --install FOLDER --component NAME):
#   runtime   the program, libmrt.so.N, plug-ins of devices and transports
#   lua       the Lua modules, and mrt.core for any Lua 5.4
#   dev       headers, libmrt.so, the binding for programs with Lua of their own,
#             and how other builds find them (pkg-config, find_package(mrt))
#   doc       pages, examples, licence
include(CMakePackageConfigHelpers)

install(TARGETS mrt COMPONENT runtime
  RUNTIME DESTINATION ${MRT_INSTALL_BINDIR})
install(TARGETS core_module COMPONENT lua
  LIBRARY DESTINATION ${MRT_INSTALL_CDIR}/mrt)
install(DIRECTORY lua/mrt COMPONENT lua DESTINATION ${MRT_INSTALL_LUADIR}
  FILES_MATCHING PATTERN "*.lua" PATTERN "*.py" PATTERN "*.c"
  PATTERN "__pycache__" EXCLUDE)

# Types for editors: share/mrt is an add-on of lua-language-server, and
# share/mrt/library what other editors are told of.  The program that was built
# writes them.
if(NOT CMAKE_CROSSCOMPILING)
  install(CODE "execute_process(COMMAND $<TARGET_FILE:mrt> scripts/types.lua
    ${CMAKE_BINARY_DIR}/library WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    RESULT_VARIABLE failed)
    if(failed)
      message(WARNING \"types for editors were not written\")
    endif()" COMPONENT lua)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/library COMPONENT lua OPTIONAL
    DESTINATION share/mrt)
  install(FILES cmake/editor.json COMPONENT lua DESTINATION share/mrt
    RENAME config.json)
endif()

# Pages link to each other, and to examples, as they do in the source.
file(GLOB_RECURSE pages CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
  bindings/*.md core/*.md kernels/*.md lua/*.md manual/*.md manual/*.svg spec/*.md)
foreach(page IN LISTS pages)
  get_filename_component(folder ${page} DIRECTORY)
  install(FILES ${page} COMPONENT doc
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE SECURITY.md
  COMPONENT doc DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples/ COMPONENT doc
  DESTINATION ${MRT_INSTALL_EXAMPLESDIR})

# Where they have been made: the manual (scripts/manual), the page for man.
install(DIRECTORY ${CMAKE_BINARY_DIR}/manual COMPONENT doc OPTIONAL
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${CMAKE_BINARY_DIR}/mrt.1 COMPONENT doc OPTIONAL
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

if(NOT MRT_LIBRARY)
  return()
endif()
install(TARGETS libmrt EXPORT mrt LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS mrt_lua EXPORT mrt ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT dev)
install(FILES core/mrt.h bindings/mrt_lua.h COMPONENT dev
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY core/mrt COMPONENT dev
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# from the .pc file to the prefix, so that an installed tree can be moved
file(RELATIVE_PATH prefix_from_pc
  ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig
  ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
foreach(name mrt mrt-lua)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc COMPONENT dev
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/mrt)
write_basic_package_version_file(mrt-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT mrt NAMESPACE mrt:: FILE mrt-config.cmake COMPONENT dev
  DESTINATION ${package_folder})
install(FILES ${CMAKE_BINARY_DIR}/mrt-config-version.cmake COMPONENT dev
  DESTINATION ${package_folder})
