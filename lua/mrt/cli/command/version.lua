--- version.lua -- `mrt version`: mrt's and Lua's.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"

return arguments.new {
  name = "mrt version",
  about = "The version of mrt, and of the Lua in it.",
  run = function()
    local info = require "mrt.core".info()
    print(("mrt %s, %s"):format(info.version, info.lua))
  end,
}
