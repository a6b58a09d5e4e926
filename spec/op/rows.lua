-- rows.lua -- the samples of all operators, and tensors made from them
--
-- A sample says what goes in and, through an oracle in plain Lua, what must
-- come out; the specs in ops_spec.lua are written once over all of them.
local mrt = require "mrt"
local core = require "mrt.core"

local rows = {}

-- MRT_SPEC_DEVICE: the device that the operators' specs run on ("cuda:0");
-- MRT_SPEC_OPS: of these operators only ("softmax,log_softmax").
rows.device = os.getenv "MRT_SPEC_DEVICE" or "cpu"
if rows.device ~= "cpu" then
  mrt.device(rows.device)
end
local chosen = os.getenv "MRT_SPEC_OPS"

--- Some operators only are looked at.
rows.partial = chosen ~= nil

-- Every file of samples/ is a family of operators.
local names = {}
for _, file in ipairs(core.list_folder "spec/op/samples") do
  names[#names + 1] = file:match "^(.+)%.lua$"
end
table.sort(names)

--- All sample rows, in a fixed order.
function rows.all()
  local list = {}
  for _, name in ipairs(names) do
    for _, row in ipairs(require("op.samples." .. name)) do
      if not chosen or ("," .. chosen .. ","):find("," .. row.op .. ",", 1, true) then
        list[#list + 1] = row
      end
    end
  end
  return list
end

-- Lehmer's generator: the same numbers on every machine, no global state.
local function generator(seed)
  local state = seed % 2147483646 + 1
  return function()
    state = state * 48271 % 2147483647
    return state / 2147483647
  end
end

local function count(dims)
  local n = 1
  for _, d in ipairs(dims) do
    n = n * d
  end
  return n
end
rows.count = count

local packing = { f32 = "f", f64 = "d", i64 = "i8", i32 = "i4", u8 = "B", bool = "B" }

-- Many numbers at a time; bytes back to numbers likewise.
local AT_ONCE <const> = 128
local function pack(format, data)
  local parts, n = {}, #data
  for i = 1, n, AT_ONCE do
    local last = math.min(i + AT_ONCE - 1, n)
    parts[#parts + 1] = string.pack("<" .. format:rep(last - i + 1),
      table.unpack(data, i, last))
  end
  return table.concat(parts)
end
local function unpack(format, bytes)
  local data, size = {}, string.packsize(format)
  local n = #bytes // size
  for i = 1, n, AT_ONCE do
    local many = math.min(AT_ONCE, n - i + 1)
    table.move({ string.unpack("<" .. format:rep(many), bytes, 1 + (i - 1) * size) }, 1,
      many, i, data)
  end
  return data
end

local function as_number(x)
  if type(x) == "boolean" then
    return x and 1 or 0
  end
  return x
end

--- A flat input {dims, dtype, data} from a sample's input.
function rows.input(sample, index, real)
  local n = count(sample.dims)
  local dtype = sample.dtype or (sample.integer and "i64") or real
  local low, high = sample.low or -1, sample.high or 1
  local random, data = generator(1000 * index + n), {}
  for i = 1, n do
    if sample.values then
      data[i] = as_number(sample.values[i])
    elseif sample.integer then
      data[i] = math.floor(random() * sample.integer)
    elseif dtype == "bool" then
      data[i] = random() < 0.5 and 0 or 1
    else
      data[i] = low + (high - low) * random()
    end
    if dtype == "i64" or dtype == "i32" or dtype == "u8" then
      data[i] = math.floor(data[i])
    elseif dtype ~= "bool" then
      data[i] = data[i] + 0.0
    end
  end
  if dtype == "f32" then -- the oracle sees what the operator sees
    data = unpack("f", pack("f", data))
  end
  return { dims = sample.dims, dtype = dtype, data = data, constant = sample.constant }
end

--- All inputs of a case; `real` is what "any float" means.
function rows.inputs(case, real)
  local ins = {}
  for i, sample in ipairs(case.inputs or {}) do
    ins[i] = rows.input(sample, i, real)
  end
  return ins
end

--- A tensor of a flat input.
function rows.tensor(flat)
  local dims = flat.dims
  local format = packing[flat.dtype]
  if not format then -- narrow floats, through f32
    local wide = rows.tensor { dims = dims, dtype = "f32", data = flat.data }
    return wide:to(flat.dtype)
  end
  return core.from_bytes(pack(format, flat.data), flat.dtype, dims)
end

--- The numbers of an evaluated tensor as a flat list.
function rows.data(t)
  if not packing[t.dtype] then
    t = t:to "f32"
  end
  return unpack(packing[t.dtype], t:bytes())
end

-- Operators that take a list of inputs.
local takes_list = {}
for _, info in ipairs(core.operators()) do takes_list[info.name] = info.max_inputs < 0 end

--- Apply the row's operator: a list of result tensors.
function rows.apply(row, tensors, options)
  local op = core.op[row.op]
  if not op then
    error("no operator " .. row.op)
  end
  if takes_list[row.op] then
    return { op(tensors, options or {}) }
  end
  local list = { table.unpack(tensors) }
  list[#list + 1] = options or {}
  return { op(table.unpack(list)) }
end

--- Which dtypes a case is run in.
function rows.reals(row, case)
  if row.dtypes then
    return row.dtypes
  end
  for _, sample in ipairs(case.inputs or {}) do
    if not sample.dtype and not sample.integer then
      return { "f32", "f64" }
    end
  end
  return { "f64" }
end

rows.tolerance = { f32 = 2e-5, f64 = 1e-9, f16 = 2e-3, bf16 = 2e-2, f8_e4m3 = 0.13,
  f8_e5m2 = 0.26 }

--- The tolerance of the narrowest float among the inputs.
function rows.loosest(ins, real)
  local most = rows.tolerance[real]
  for _, flat in ipairs(ins) do
    most = math.max(most, rows.tolerance[flat.dtype] or 0)
  end
  return most
end

--- Nil when equal to the tolerance, else what differs.
function rows.differs(got, wanted, tolerance)
  if #got ~= #wanted then
    return ("%d elements, %d wanted"):format(#got, #wanted)
  end
  local scale = 1e-2
  for _, w in ipairs(wanted) do
    w = as_number(w)
    if w == w and math.abs(w) ~= math.huge then
      scale = math.max(scale, math.min(math.abs(w), 1))
    end
  end
  for i, g in ipairs(got) do
    local w = as_number(wanted[i])
    local same = g == w or (g ~= g and w ~= w)
    if not same and not (math.abs(g - w) <= tolerance * math.max(scale, math.abs(w))) then
      return ("element %d is %.9g, %.9g wanted"):format(i, g, w)
    end
  end
end

rows.mrt = mrt
return rows
