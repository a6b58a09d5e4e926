-- From a clone:  luarocks make        (--lua-version 5.4, --local as usual)
--
-- The rock has the Lua modules, mrt.core and the program, with kernels for the
-- instruction set of this machine. The environment may say otherwise:
--
--   MRT_ISAS="base;avx2;avx512"   kernels for other machines too
--   MRT_LIBRARY=ON                for C programs too: libmrt, headers, pkg-config files,
--                                 in the folder `c` of the rock (luarocks show --rock-dir mrt)
--
-- Debian's packages for the headers below: libjansson-dev libutf8proc-dev
-- libpcre2-dev zlib1g-dev, and libedit-dev for a prompt with history.
rockspec_format = "3.0"
package = "mrt"
version = "0.1.0-1"
source = { url = "git+file://.", tag = "v0.1.0" }
description = {
  summary = "A training runtime that says to the byte what a step takes",
  detailed = [[
Tensors, gradients, models and optimizers in Lua over a C core. A training step is traced once and
planned: its memory is known before it runs, and met within a budget by recomputing and swapping,
with the same bits.]],
  license = "MIT",
  labels = { "machine-learning", "tensor", "autodiff" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.4, < 5.5" }
external_dependencies = {
  JANSSON = { header = "jansson.h" },
  UTF8PROC = { header = "utf8proc.h" },
  PCRE2 = { header = "pcre2.h" },
  ZLIB = { header = "zlib.h" },
}
build = {
  type = "command",
  build_command = [[cmake -S . -B build.luarocks -DMRT_BUILD_TESTS=OFF -DMRT_MPI=OFF -DMRT_CUDA=OFF]]
    .. [[ -DMRT_ISAS="${MRT_ISAS:-native}" -DMRT_LIBRARY="${MRT_LIBRARY:-OFF}"]]
    .. [[ -DLUA_INCLUDE_DIR="$(LUA_INCDIR)"]]
    .. [[ -DCMAKE_INSTALL_PREFIX="$(PREFIX)" -DMRT_INSTALL_BINDIR="$(BINDIR)"]]
    .. [[ -DMRT_INSTALL_LUADIR="$(LUADIR)" -DMRT_INSTALL_CDIR="$(LIBDIR)"]]
    .. [[ -DMRT_LUA_FOLDER=../share/lua/5.4 -DCMAKE_INSTALL_DOCDIR=doc]]
    .. [[ -DCMAKE_INSTALL_LIBDIR=c/lib -DCMAKE_INSTALL_INCLUDEDIR=c/include]]
    .. [[ && cmake --build build.luarocks --parallel `nproc`]],
  install_command = "cmake --install build.luarocks",
}
