-- collective.lua -- samples of collectives: one rank is the identity (what several
-- ranks compute is in communicator_spec.lua)
local mrt = require "mrt"

local alone = mrt.communicator.create().number

local function identity(ins) return { { dims = ins[1].dims, data = ins[1].data } } end

local function case(dims, options, more)
  options = options or {}
  options.comm = alone
  local made = { inputs = { { dims = dims } }, options = options }
  for key, value in pairs(more or {}) do made[key] = value end
  return made
end

local function typed(dims, dtype, options)
  local made = case(dims, options)
  made.inputs[1] = { dims = dims, dtype = dtype, low = 0, high = 9, constant = true }
  return made
end

local function bad(dims, dtype, options, code, match)
  local made = typed(dims, dtype, options)
  made.code, made.match = code, match
  if options.other then made.options = options.other end
  return made
end

local function with(list, ...)
  for _, more in ipairs { ... } do list[#list + 1] = more end
  return list
end

local shapes = { { 3, 67 }, { 1 }, { 5000 }, { 0 }, { 2, 0, 3 } }
local function of_shapes(options)
  local list = {}
  for i, dims in ipairs(shapes) do
    local own = {}
    for key, value in pairs(options or {}) do own[key] = value end
    list[i] = case(dims, own)
  end
  return list
end

local reduced = with(of_shapes { op = "sum" }, case({ 2, 3 }, { op = "mean" }),
  typed({ 7 }, "i64", { op = "prod" }), typed({ 7 }, "bool", { op = "max" }),
  typed({ 7 }, "bf16", { op = "min" }), typed({ 7 }, "f8_e4m3", { op = "sum" }))
for i = #reduced - 3, #reduced do reduced[i].grad = false end
local function scalar(options) return case({}, options) end

local refused = {
  bad({ 2 }, "i64", { op = "mean" }, "dtype", "mean of i64"),
  bad({ 2 }, "bool", { op = "sum" }, "dtype", "sum of bool"),
  bad({ 2 }, "f32", { other = { comm = 1000 } }, "value", "no communicator 1000"),
  bad({ 2 }, "f32", { op = "average" }, "value", "average"),
  bad({ 2 }, "f32", { other = {} }, "value", "comm"),
}

return {
  { op = "allreduce", grad = true, oracle = identity, bad = refused,
    cases = with({ scalar { op = "sum" } }, table.unpack(reduced)) },
  { op = "reduce_scatter", grad = true, oracle = identity, cases = reduced,
    bad = with({ bad({}, "f32", {}, "shape", "at least 1 dimension") },
      table.unpack(refused)) },
  { op = "allgather", grad = true, oracle = identity,
    cases = with(of_shapes(), typed({ 3, 5 }, "i32"), typed({ 3 }, "bool")),
    bad = { bad({}, "f32", {}, "shape", "at least 1 dimension") } },
  { op = "all_to_all", grad = true, oracle = identity,
    cases = with(of_shapes(), typed({ 3, 5 }, "i32"), typed({ 3 }, "bool")),
    bad = { bad({}, "f32", {}, "shape", "at least 1 dimension") } },
  { op = "broadcast", grad = true, oracle = identity,
    cases = with(of_shapes { root = 0 }, scalar {}, typed({ 3, 5 }, "u8")),
    bad = { bad({ 2 }, "f32", { root = 1 }, "value", "rank 1, 0 to 0"),
      bad({ 2 }, "f32", { root = -1 }, "value", "rank -1") } },
  { op = "shift", grad = true, oracle = identity,
    cases = with(of_shapes { by = 1 }, scalar { by = -3 }, typed({ 3, 5 }, "u8")),
    bad = { bad({ 2 }, "f32", { by = 0.5 }, "value", "by") } },
  -- nobody to give to
  { op = "send", grad = false, oracle = false, cases = {},
    bad = { bad({ 2 }, "f32", { to = 0 }, "value", "this rank"),
      bad({ 2 }, "f32", { to = 5 }, "value", "rank 5") } },
  { op = "recv", grad = false, oracle = false, cases = {},
    bad = {
      { options = { from = 0, shape = { 2 }, comm = alone }, code = "value",
        match = "this rank" },
      { options = { from = 0, comm = alone }, code = "value", match = "shape" },
    } },
}
