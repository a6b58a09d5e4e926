--- types.lua -- types of the library for language servers, from the reference
---
---     build/mrt scripts/types.lua [FOLDER]      default build/library
---
--- Files in LuaCATS with all comments, for an editor's `workspace.library`: they complete
--- and explain `mrt.`, `x:` and the options of tables through `require "mrt"`.
---
--- SPDX-License-Identifier: MIT

local meta = require "mrt.reference.meta"
local reference = require "mrt.reference"

local folder = arg[1] or "build/library"
assert(os.execute(("mkdir -p '%s/mrt'"):format(folder:gsub("'", "'\\''"))))
for path, text in pairs(meta.files(reference.index())) do
  local file <close> = assert(io.open(folder .. "/" .. path, "w"))
  assert(file:write(text))
end
