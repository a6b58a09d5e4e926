# Lua 5.4: by pkg-config; or, for one built from its own sources, which has no
# file for that, the one that LUA_INCLUDE_DIR is of, or that CMake finds.  Makes
# MRT_LUA_INCLUDES, and mrt_stock_lua, which the program links.
add_library(mrt_stock_lua INTERFACE)
pkg_search_module(STOCK_LUA IMPORTED_TARGET lua5.4 lua-5.4 lua54)
if(STOCK_LUA_FOUND AND (NOT LUA_INCLUDE_DIR OR
    LUA_INCLUDE_DIR IN_LIST STOCK_LUA_INCLUDE_DIRS))
  set(MRT_LUA_INCLUDES ${STOCK_LUA_INCLUDE_DIRS})
  target_link_libraries(mrt_stock_lua INTERFACE PkgConfig::STOCK_LUA)
else()
  if(LUA_INCLUDE_DIR)
    get_filename_component(lua_dir ${LUA_INCLUDE_DIR} DIRECTORY)
    set(ENV{LUA_DIR} ${lua_dir})
  endif()
  find_package(Lua 5.4 EXACT REQUIRED)
  set(MRT_LUA_INCLUDES ${LUA_INCLUDE_DIR})
  target_include_directories(mrt_stock_lua INTERFACE ${LUA_INCLUDE_DIR})
  target_link_libraries(mrt_stock_lua INTERFACE ${LUA_LIBRARIES})
endif()
