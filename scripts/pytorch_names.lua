--- pytorch_names.lua -- the page of PyTorch's names beside ours, from spec/torch/
---
---     build/mrt scripts/pytorch_names.lua       writes lua/mrt/tensor/PYTORCH.md
---     build/mrt scripts/pytorch_names.lua -     prints what it would write
---
--- SPDX-License-Identifier: MIT

package.path = "spec/?.lua;" .. package.path
local vocabulary = require "support.vocabulary"

local PATH <const> = "lua/mrt/tensor/PYTORCH.md"

local head = [[
# PyTorch's names beside ours

Written by `scripts/pytorch_names.lua` from the tables of [spec/torch](../../../spec/torch/README.md), which also
hold every function to PyTorch's results. Methods are functions too: `x:sort(2)` is `mrt.sort(x, 2)`. Arguments
have PyTorch's names and order, and may be given in a last table, `x:sort{dim = 2, descending = true}`.
Dimensions count from 1 and from -1 at the end; positions and ids that are stored in tensors from 0. Numbers
that come out otherwise: [numbers](README.md).
]]

-- "x:sort(dim, descending)", or nn.kl_div(input, target).
local function call_of(row)
  local names, method = {}, row.ours:match "^Tensor%.(.+)$"
  for i, argument in ipairs(row.args or {}) do
    local own = argument[1]:sub(1, 1) ~= "_" -- not what cases are drawn with
    if own and (i > 1 or not method) then names[#names + 1] = argument[1] end
  end
  local name = method and (row.args[1][1] == "self" and "self:" or "x:") .. method or row.ours
  return ("`%s%s`"):format(name, row.args and "(" .. table.concat(names, ", ") .. ")" or "")
end

local titles = {}

local function family_of(row, out)
  if titles[row.family] then return end
  titles[row.family] = true
  out[#out + 1] = ("\n## %s\n\n| PyTorch | here | |\n|---|---|---|")
    :format(row.family:gsub("^%l", string.upper):gsub("_", " "))
end

local function page()
  local out, absent = { head }, {}
  for _, row in ipairs(vocabulary.rows()) do
    if row.absent then
      absent[#absent + 1] = ("| `%s` | %s |"):format(row.torch, row.absent)
    else
      family_of(row, out)
      out[#out + 1] = ("| `%s` | %s | %s |"):format(row.torch:gsub("^torch%.nn%.functional%.", "F."),
        call_of(row), row.differs or "")
    end
  end
  if #absent > 0 then
    out[#out + 1] = "\n## Absent\n\n| PyTorch | why |\n|---|---|\n" .. table.concat(absent, "\n")
  end
  return table.concat(out, "\n") .. "\n"
end

if arg[1] == "-" then
  io.write(page())
else
  local file <close> = assert(io.open(PATH, "w"))
  file:write(page())
end
