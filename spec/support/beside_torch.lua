--- beside_torch.lua -- PyTorch in a process of its own, and whether two results agree
---
--- PYTHON names the interpreter.
---
--- SPDX-License-Identifier: MIT

local rows = require "op.rows"

local beside = {}

local python = os.getenv "PYTHON" or "python3"

local tolerance = { f32 = 3e-5, f64 = 1e-9, f16 = 4e-3, bf16 = 3e-2 }
local bound = { f32 = 3.4e38, f16 = 65504, bf16 = 3.38e38 }
beside.tolerance = tolerance

-- The first place where they differ, or nil.
function beside.differs(got, wanted, loosest, least)
  local dims, want_dims = table.concat(got.shape, ","), table.concat(wanted.shape, ",")
  if dims ~= want_dims then return ("shape [%s], [%s] wanted"):format(dims, want_dims) end
  local tol = math.max(tolerance[got.dtype] or 0, loosest)
  local most = bound[got.dtype] or math.huge
  local g, w, scale = rows.data(got), rows.data(wanted), least
  for _, x in ipairs(w) do
    if x == x and math.abs(x) < most then scale = math.max(scale, math.min(math.abs(x), 1e3)) end
  end
  for i, x in ipairs(g) do
    local y = w[i]
    local same = x == y or (x ~= x and y ~= y)
      or math.abs(y) > most * 0.99 and math.abs(x) >= most * 0.99 and x * y > 0
    if not same and not (math.abs(x - y) <= tol * (math.abs(y) + scale) + 1e-37) then
      return ("element %d is %.9g, %.9g wanted"):format(i, x, y)
    end
  end
end

local function json(v)
  if type(v) == "table" then
    local parts = {}
    if #v > 0 or next(v) == nil then
      for i, x in ipairs(v) do parts[i] = json(x) end
      return "[" .. table.concat(parts, ",") .. "]"
    end
    for k, x in pairs(v) do parts[#parts + 1] = ('"%s":%s'):format(k, json(x)) end
    return "{" .. table.concat(parts, ",") .. "}"
  end
  return type(v) == "string" and ('"%s"'):format(v) or tostring(v)
end
beside.json = json

--- What is lacking here, or nil.
function beside.missing()
  if os.execute(("'%s' -c 'import torch' 2>/dev/null"):format(python)) then return end
  return ("no torch in %s: PYTHON names another interpreter"):format(python)
end

--- Run a program with arguments, what it says going to a file; whether it went well.
function beside.python(program, said, ...)
  local words = { ("'%s' '%s'"):format(python, program) }
  for _, word in ipairs { ... } do words[#words + 1] = ("'%s'"):format(word) end
  return os.execute(("%s 2>'%s'"):format(table.concat(words, " "), said))
end

return beside
