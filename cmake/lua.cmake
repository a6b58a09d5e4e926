# Lua 5.4: by pkg-config, or, for one built from its own sources, which has no
# file for that, where LUA_INCLUDE_DIR and LUA_LIBRARY say or CMake finds it.
# Makes MRT_LUA_INCLUDES and mrt_stock_lua, what the program links.
add_library(mrt_stock_lua INTERFACE)
if(NOT LUA_INCLUDE_DIR)
  pkg_search_module(STOCK_LUA IMPORTED_TARGET lua5.4 lua-5.4 lua54)
endif()
if(STOCK_LUA_FOUND)
  set(MRT_LUA_INCLUDES ${STOCK_LUA_INCLUDE_DIRS})
  target_link_libraries(mrt_stock_lua INTERFACE PkgConfig::STOCK_LUA)
else()
  find_package(Lua 5.4 EXACT REQUIRED)
  set(MRT_LUA_INCLUDES ${LUA_INCLUDE_DIR})
  target_include_directories(mrt_stock_lua INTERFACE ${LUA_INCLUDE_DIR})
  target_link_libraries(mrt_stock_lua INTERFACE ${LUA_LIBRARIES})
endif()
