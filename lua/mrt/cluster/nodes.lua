--- nodes.lua -- the nodes of a piece of a model, read from its plan
---
--- A piece (pieces.lua) and its gradients are traced and planned, nothing runs; each step of
--- the plan that moves or computes something becomes a node:
---
---     { phase = "forward" | "backward", kind = "product", m =, n =, k =, count =, dtype =,
---       weight = true, flops =, bytes = }
---     { phase =, kind = "attention", gradient = true, flops =, bytes =, width = }
---     { phase =, kind = "memory", class = "norm", bytes = }
---
--- A plan of a whole rewritten step can be read the same way (`nodes.of_plan`).  Collectives
--- are nodes too: { phase =, kind = "collective", collective = "allreduce", bytes =,
--- group = "tensor", value = }, and { kind = "arrive", value = } waits for one that began ahead.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local pieces = require "mrt.cluster.pieces"

local nodes = {}

---@class mrt.cluster.Node
---@field phase "forward"|"backward"
---@field kind "product"|"attention"|"memory"|"collective"|"arrive"
---@field class? string  of a memory node: norm, softmax, ...
---@field m? integer
---@field n? integer
---@field k? integer
---@field count? integer  products of these sizes
---@field weight? boolean  one factor is a parameter or its gradient
---@field dtype? string
---@field gradient? boolean
---@field width? integer  of a head
---@field flops number
---@field bytes number
---@field collective? string
---@field group? string|table  an axis of the mesh, or all; or size and stride
---@field ratio? number  of a collective: bytes of the larger of what it reads and writes, over
---  those of the other
---@field vector? boolean  of a collective: it reads one dimension
---@field comm? integer  of a collective of a plan: its communicator's number
---@field value? integer  of a collective and its `arrive`: the plan's number of the result

---@class mrt.cluster.Model
---@field layers integer
---@field hidden integer
---@field heads integer
---@field kv_heads integer
---@field ffn integer
---@field vocab integer
---@field seq integer
---@field gated boolean  RMS norms, three layers in the perceptron, turned positions
---@field bias boolean
---@field experts? integer  in each layer, `ffn` wide, in place of the perceptron
---@field top? integer      of these, that a token goes to
---@field shared? integer   width of a perceptron that all tokens go to besides

---@class mrt.cluster.Share
---@field dtype mrt.DType
---@field rows integer  sequences of a micro-batch
---@field tokens integer  of each, on this rank
---@field tokens_between integer  of those, what norms and residuals are for
---@field tensor integer  ranks
---@field expert? integer  ranks that share the experts, each with rows of its own
---@field whole? boolean   ranks of tensor compute these whole
---@field vocab integer  rows of the table on this rank
---@field attention "scores"|"fused"
---@field fused_softmax boolean
---@field loss "steps"|"softmax"|"fused"
---@field dropout number

--- The dimensions of a type, of "f32[2,3]" 2 and 3.
---@param type string
---@return integer[]
function nodes.dims(type)
  local list = {}
  for d in type:match("%[(.*)%]"):gmatch "%d+" do list[#list + 1] = math.tointeger(tonumber(d)) end
  return list
end

local dims = nodes.dims

local function elements(list, from, to)
  local n = 1
  for i = from, to do n = n * list[i] end
  return n
end

local function dtype_of(type) return type:match "^%w+" end

-- What a product is, of the types that it reads and writes.
local function product(step, reads, writes)
  local out = dims(writes[1].type)
  local batched = step.op == "matmul" and #out > 3 -- of weights results have fewer
  local n = out[#out]
  local m, count = elements(out, 1, #out - 1), 1
  if batched then m, count = out[#out - 1], elements(out, 1, #out - 2) end
  local k = math.floor(step.flops / (2 * m * n * count) + 0.01)
  return { kind = "product", m = m, n = n, k = math.max(k, 1), count = count,
    dtype = dtype_of(reads[1].type), weight = not batched }
end

-- What is no kernel of its own elsewhere: constants, vectors that are rounded, views.
local TINY <const> = 2 ^ 20
local function is_small(step)
  local op = step.op
  return step.class == "pointwise" and step.bytes < TINY and (op == "cast" or op == "full")
    or step.bytes == 0 and step.flops == 0
end

local wide <const> = { f64 = 8, f32 = 4, i64 = 8, i32 = 4, bf16 = 2, f16 = 2 }

-- Bytes of a kernel that keeps values as narrow as the program does, and stores which
-- elements it drops; mrt rounds later, and draws these again.
local function narrow_bytes(step, reads, writes)
  local bytes, most = 0, 0
  for _, list in ipairs { reads, writes } do
    for _, v in ipairs(list) do
      if v.kind ~= "workspace" then
        local d = dims(v.type)
        local n = elements(d, 1, #d)
        bytes = bytes + n * math.min(2, wide[dtype_of(v.type)] or 1)
        most = math.max(most, n)
      end
    end
  end
  return step.class == "dropout" and bytes + most or bytes
end

local products <const> = { matmul = true, linear = true, matmul_sums = true,
  grouped_matmul = true, grouped_matmul_dw = true }
local together <const> = { allreduce = true, reduce_scatter = true, allgather = true,
  broadcast = true, all_to_all = true, shift = true }

local function bytes_of(v)
  local d = dims(v.type)
  return elements(d, 1, #d) * (wide[dtype_of(v.type)] or 1)
end

-- What ranks do together, of the larger of what goes in and comes out.
local function collective(step, reads, writes)
  local into, out = 0, 0
  for _, v in ipairs(reads) do into = math.max(into, bytes_of(v)) end
  for _, v in ipairs(writes) do out = math.max(out, bytes_of(v)) end
  local bytes, least = math.max(into, out), math.min(into, out)
  return { kind = "collective", collective = step.op, group = "all",
    phase = step.backward and "backward" or "forward", bytes = bytes, flops = 0, comm = step.comm,
    ratio = least > 0 and bytes / least or 1, vector = #dims(reads[1].type) == 1 }
end

local function node(step, reads, writes, eager)
  if together[step.op] then return collective(step, reads, writes) end
  local out
  if products[step.op] and step.class == "matmul" then
    out = product(step, reads, writes)
  elseif step.class == "attention" or step.class == "attention_grad" then
    local q = dims(reads[1].type)
    out = { kind = "attention", gradient = step.class == "attention_grad", width = q[#q] }
  else
    out = { kind = "memory", class = step.class }
  end
  out.phase = step.backward and "backward" or "forward"
  out.flops, out.bytes = step.flops, step.bytes
  if not eager and (step.class == "softmax" or step.class == "dropout") then
    out.bytes = narrow_bytes(step, reads, writes)
  end
  return out
end

--- The nodes of a plan, in its order.
---@param plan mrt.Plan
---@param eager? boolean  its bytes are as they are
---@return mrt.cluster.Node[]
function nodes.of_plan(plan, eager)
  local list, operands, values = {}, plan:operands(), plan:values()
  local function of(numbers)
    local out = {}
    for i, k in ipairs(numbers) do out[i] = values[k] end
    return out
  end
  local steps = plan:steps()
  -- dropout reads and writes narrow floats itself
  local function beside_dropout(i)
    local before, after = steps[i - 1], steps[i + 1]
    return steps[i].op == "cast"
      and (before and before.op == "dropout" or after and after.op == "dropout")
  end
  for i, step in ipairs(steps) do
    local reads, writes = of(operands[i].reads), of(operands[i].writes)
    -- what copies into a result is there for the trace alone
    local result = step.class == "move" and step.backward and writes[1]
      and writes[1].kind == "output"
    if step.op == "arrive" then
      list[#list + 1] = { kind = "arrive", value = operands[i].reads[1], flops = 0, bytes = 0 }
    elseif writes[1] and not is_small(step) and not beside_dropout(i) and not result then
      list[#list + 1] = node(step, reads, writes, eager)
      list[#list].value = together[step.op] and operands[i].writes[1] or nil
    end
  end
  return list
end

-- Plans stay as they are written: kernels are those of a framework that runs eagerly.
local function options(eager)
  return { fuse_epilogue = false, add_products = false, order = "program", update_rows = false,
    join_losses = false, add_norm_grads = false, mask_batch_norm = false,
    split_batch_norm = false, update_products = false, keep_matrices = false,
    keep_images = false, spend = 0, fuse = not eager }
end

local function planned(piece, dtype)
  local args, seeds = {}, {}
  for i, shape in ipairs(piece.shapes) do args[i] = mrt.zeros(shape, { dtype = dtype }) end
  for name, type in pairs { ids = "i64", mask = "bool", counts = "i64" } do
    local shape = piece.shapes[name]
    if shape then args[#args + 1] = mrt.zeros(shape, { dtype = type }) end
  end
  local step = mrt.compile(function(...)
    local all, inputs = { ... }, table.move(piece.parameters, 1, #piece.parameters, 1, {})
    for i = 1, #piece.shapes do inputs[#inputs + 1] = all[i] end
    local ys = { piece.f(...) }
    for i, y in ipairs(ys) do
      seeds[i] = #y:size() > 0 and y:detach() or nil -- any gradient of its type
    end
    local grads = mrt.grad(ys, inputs, { grad_outputs = #seeds > 0 and seeds or nil })
    return ys, grads
  end, options(piece.eager))
  return step:plan(table.unpack(args))
end

local known = {}

local function key_of(name, m, o)
  local list = { name }
  for _, t in ipairs { m, o } do
    local keys = {}
    for k in pairs(t) do keys[#keys + 1] = k end
    table.sort(keys)
    for _, k in ipairs(keys) do list[#list + 1] = ("%s=%s"):format(k, tostring(t[k])) end
  end
  return table.concat(list, " ")
end

--- The nodes of a piece: "between", "attention", "mlp", "embedding", "head"; planned once
--- for each model and share.
---@param name string
---@param m mrt.cluster.Model
---@param o mrt.cluster.Share
---@return mrt.cluster.Node[]
---@return integer[] parameters  elements of each, on this rank
function nodes.of(name, m, o)
  local key = key_of(name, m, o)
  local found = known[key]
  if not found then
    local piece = pieces[name](m, o)
    local sizes = {}
    for i, p in ipairs(piece.parameters) do sizes[i] = elements(p:size(), 1, #p:size()) end
    found = { nodes.of_plan(planned(piece, o.dtype), piece.eager or piece.wide), sizes }
    known[key] = found
  end
  return found[1], found[2]
end

return nodes
