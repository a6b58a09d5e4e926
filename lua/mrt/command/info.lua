--- info.lua -- `mrt info`: what this build and this machine have.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local function line(name, text) print(string.format("%-16s %s", name, text)) end

return function()
  local info = core.info()
  line("mrt", info.version)
  line("Lua", _VERSION)
  line("instruction set", info.isa)
  line("threads", info.threads)
  line("libraries", info.libraries ~= "" and info.libraries or "none")
  line("devices", "cpu")
end
