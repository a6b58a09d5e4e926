--- oracle.lua -- operators on a device, each by itself, beside what they promise
---
---     MRT_SPEC_DEVICE=cuda:0 mrt scripts/gpu/oracle.lua FILE FAMILY...
---
--- A family is a file of spec/op/samples.  FILE gets a line of JSON for each operator and
--- dtype: how many cases, the worst error (1: the whole tolerance), what was wrong first.
--- Three runs of a compiled step, plain, recorded and replayed, must have the same bits.
--- What the file has already is left out; exit 3: the device failed, run it again.
---
--- SPDX-License-Identifier: MIT

package.path = "spec/?.lua;" .. package.path
local mrt = require "mrt"
local core = require "mrt.core"
local json = require "mrt.util.json"
local rows = require "op.rows"
local bits = require("support.bits").of

local file = table.remove(arg, 1)

local function number(x)
  if type(x) == "boolean" then return x and 1 or 0 end
  return x
end

-- What a small error is measured by, as in spec/op/rows.lua.
local function scale_of(wanted)
  local scale = 1e-2
  for _, w in ipairs(wanted) do
    local size = math.abs(number(w))
    if size < math.huge then scale = math.max(scale, math.min(size, 1)) end
  end
  return scale
end

-- The greatest |got - wanted| in units of the tolerance; infinite: a NaN too many.
local function error_of(got, wanted, tolerance)
  if #got ~= #wanted then return math.huge end
  local scale, worst = scale_of(wanted), 0
  for i, g in ipairs(got) do
    local w = number(wanted[i])
    if not (g == w or (g ~= g and w ~= w)) then
      local off = math.abs(g - w) / (tolerance * math.max(scale, math.abs(w)))
      worst = math.max(worst, off == off and off or math.huge)
    end
  end
  return worst
end

local function tensors_of(ins)
  local list = {}
  for i, flat in ipairs(ins) do list[i] = rows.tensor(flat) end
  return list
end

local function compare(outs, wanted, tolerance)
  local worst = 0
  for i, w in ipairs(wanted) do
    if table.concat(w.dims, " ") ~= table.concat(outs[i].shape, " ") then
      error(("output %d: another shape"):format(i))
    end
    worst = math.max(worst, error_of(rows.data(outs[i]), w.data, tolerance))
  end
  return worst
end

local function update(row, case, ins, real)
  local list, wanted = tensors_of(ins), row.oracle(ins, case.options or {})
  for i = 1, #wanted do list[i] = mrt.variable(list[i]) end
  if row.op == "assign" then
    list[1]:assign(list[2], { when = list[3] })
  else
    core.update(row.op, list, case.options)
  end
  for i = 1, #wanted do mrt.eval(list[i]) end
  return compare(list, wanted, rows.tolerance[real])
end

local function value(row, case, ins, real)
  local worst = 0
  if row.oracle then
    local outs = rows.apply(row, tensors_of(ins), case.options)
    mrt.eval(outs)
    local tolerance = case.tolerance or row.tolerance or rows.loosest(ins, real)
    worst = compare(outs, row.oracle(ins, case.options or {}), tolerance)
  end
  if #ins == 0 then return worst end
  local given = tensors_of(ins)
  local step = mrt.compile(function(...)
    return table.unpack(rows.apply(row, { ... }, case.options))
  end)
  mrt.seed(7)
  local first = bits { step(table.unpack(given)) }
  for i = 2, 3 do
    mrt.seed(7)
    if bits { step(table.unpack(given)) } ~= first then
      error(("run %d has other bits"):format(i))
    end
  end
  return worst
end

-- Lines by operator and dtype, of which there are several where samples have several rows.
local function done_before()
  local done = {}
  local f = io.open(file)
  for text in f and f:lines() or function() end do
    local line = json.decode(text)
    local key = line.op .. " " .. line.dtype
    done[key] = (done[key] or 0) + 1
  end
  if f then f:close() end
  return done
end

-- Cases of an operator in a dtype as a line; true: the device has failed.
local function look(row, real, cases)
  local line = { op = row.op, dtype = real, cases = 0, worst = 0, failed = 0 }
  for k, case in ipairs(cases) do
    local ok, worst = pcall(function()
      return (row.updates and update or value)(row, case, rows.inputs(case, real), real)
    end)
    line.cases = line.cases + 1
    if not ok or worst > 1 then
      line.failed = line.failed + 1
      line.first = line.first or ("case %d: %s"):format(k, ok and "" or tostring(worst))
    end
    if ok then line.worst = math.max(line.worst, math.min(worst, 1e30)) end
    line.broken = not pcall(function() return mrt.eval(mrt.ones(2)):sum():item() end) or nil
    if line.broken then break end
  end
  return line
end

local done = done_before()
local out = assert(io.open(file, "a"))
out:setvbuf "line"
for _, name in ipairs(arg) do
  for _, row in ipairs(require("op.samples." .. name)) do
    local by_dtype, dtypes = {}, {}
    for _, case in ipairs(row.cases) do
      for _, real in ipairs(rows.reals(row, case)) do
        if not by_dtype[real] then by_dtype[real], dtypes[#dtypes + 1] = {}, real end
        table.insert(by_dtype[real], case)
      end
    end
    for _, real in ipairs(dtypes) do
      local key = row.op .. " " .. real
      if (done[key] or 0) > 0 then
        done[key] = done[key] - 1
      else
        local line = look(row, real, by_dtype[real])
        out:write(json.encode(line), "\n")
        if line.broken then os.exit(3) end
      end
    end
  end
end
