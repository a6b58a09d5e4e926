-- partition_rules_spec.lua -- every operator by pieces, written once over all rows
--
-- Each input of each sample is cut over two ranks along each dimension that divides, in
-- one run and in several; the result must be what one rank computes.  What a row's rule
-- claims is tried there, and what it does not claim is put together first.
local mrt = require "mrt"

local code = [[
package.path = PATH
local mrt, comm = ...
local core, rows = require "mrt.core", require "op.rows"
local cut, divided, failed = 0, {}, {}

local function bytes_of(list)
  mrt.eval(list)
  local out = {}
  for i, t in ipairs(list) do out[i] = rows.data(t) end
  return out
end

local function run(row, case, list)
  local f = mrt.compile(function() return table.unpack(rows.apply(row, list, case.options)) end,
    { effort = 0, order = "program" })
  return bytes_of { f() }, f
end

-- Is the row computed with an input of other types than these?
local function by_pieces(f, row, types)
  local graph = f:plan():stage "partition"
  for _, n in ipairs(graph.nodes) do
    if n.op == row.op then
      for i, id in ipairs(n.reads) do
        local v = graph.values[id]
        if types[i] and v and v.type ~= types[i] then return true end
      end
    end
  end
  return false
end

local function in_pieces(t, outer)
  local v = core.variable(t, "x")
  local piece = core.variable(mrt.eval(core.op.reshape(core.op.own_piece(v, { outer = outer,
    rank = comm.rank, size = 2 }), { t:numel() // 2 })):copy(), "piece")
  mrt.eval(piece)
  core.cut(v, piece, comm.number, outer, false)
  return v
end

local function tensors_of(ins)
  local list, types = {}, {}
  for j, flat in ipairs(ins) do
    list[j] = rows.tensor(flat)
    types[j] = list[j]:type()
  end
  return list, types
end

local function try(row, case, k, ins, i, outer, wanted)
  local list, types = tensors_of(ins)
  list[i] = in_pieces(list[i], outer)
  local got, f = run(row, case, list)
  cut = cut + 1
  if by_pieces(f, row, types) then divided[row.op] = (divided[row.op] or 0) + 1 end
  for o, w in ipairs(wanted) do
    local loose = case.tolerance or row.tolerance or rows.loosest(ins, "f32")
    local what = rows.differs(got[o], w, loose)
    if what then
      failed[#failed + 1] = ("%s, case %d, input %d after %d, output %d: %s"):format(row.op, k,
        i, outer, o, what)
    end
  end
end

local skipped = { own_piece = true }
for _, row in ipairs(rows.all()) do
  for k, case in ipairs((row.updates or skipped[row.op]) and {} or row.cases) do
    local ins, wanted = rows.inputs(case, rows.reals(row, case)[1]), nil
    for i, flat in ipairs(ins) do
      local outer = 1
      for d, n in ipairs(flat.dims) do
        for _, runs in ipairs(flat.constant and {} or { 1, 2 }) do
          if n > 0 and rows.count(flat.dims) > 0 and n % (2 * runs) == 0 then
            wanted = wanted or run(row, case, (tensors_of(ins)))
            local ok, message = pcall(try, row, case, k, ins, i, outer * runs, wanted)
            if not ok then
              failed[#failed + 1] = ("%s, case %d, input %d: %s"):format(row.op, k, i,
                tostring(message))
            end
          end
        end
        outer = outer * n
      end
    end
  end
end
local names = {}
for name, n in pairs(divided) do names[#names + 1] = name .. "=" .. n end
table.sort(names)
local text = table.concat(failed, "\n", 1, math.min(#failed, 20))
if #failed > 0 then text = text .. "\n" .. #failed .. " failed" end
return table.concat({ cut, #names, table.concat(names, " "), text }, ";")
]]

describe("an operator over weights in pieces", function()
  it("computes what it does of the whole, whichever input is cut, and how", function()
    local script = code:gsub("PATH", function() return ("%q"):format(package.path) end)
    local results, failures = mrt.communicator.ranks(2, script, { timeout = 120 })
    for rank, text in pairs(failures or {}) do error("rank " .. rank .. ": " .. text) end
    assert.are.equal(results[1], results[2])
    local cuts, rows, names, failed = results[1]:match "^(%d+);(%d+);([^;]*);(.*)$"
    assert.are.equal("", failed)
    if not os.getenv "MRT_SPEC_OPS" then
      assert(tonumber(cuts) > 500, cuts)
      assert(tonumber(rows) > 150, rows)
      for _, name in ipairs { "matmul", "linear", "attention", "attention_grad", "layer_norm",
        "layer_norm_grad", "embedding", "split", "cat", "slice", "sum", "add" } do
        assert((" " .. names):find(" " .. name .. "=", 1, true), name .. " is put together")
      end
    end
  end)
end)
