-- combined_spec.lua -- meshes with all else, drawn at random: losses, bytes
--
-- SPDX-License-Identifier: MIT

local ranks = require "support.ranks"

-- Four steps of a small model over a batch of 8 rows.  `o` says the mesh; of one rank it
-- is nil.  Each rank has taken what its plan says; losses and parameters are told with
-- six digits, for sums over ranks have another order.
local code = [[
  local random_graph = require "support.random_graph"
  local seed, grid = %d, %s
  local random = random_graph.generator(seed * 7919 + 1234567)
  local function pick(list) return list[random(#list)] or nil end
  local kind = pick { "gpt", "gpt", "llama", "experts", "experts", "mlp" }
  local layers, heads, tie = random(2), pick { 2, 4 }, pick { true, false }
  local dropout, k = pick { 0, 0.1 }, pick { 1, 1, 2 }
  local sequence, clip = pick { true, false }, pick { false, 0.5 }
  local optimizer = pick { "adamw", "adamw", "lion", "sgd", "lamb", "muon" }
  local checkpoint = pick { false, policy.checkpoint.every(1), policy.checkpoint.all() }
  local budget, compress = pick { false, 0.7 }, pick { false, false, "int8" }
  local stage, state = pick { false, 1, 2 }, pick { false, "8bit", "bf16" }
  if kind == "experts" and optimizer == "muon" then optimizer = "adamw" end
  if optimizer ~= "adamw" and optimizer ~= "lion" then state = false end
  local decay = pick { 0, 0, 1e-3 } -- the loss is a function of several sums then

  local function size(name) return grid and grid[name] or 1 end
  local inner = size "tensor" * size "context"
  local staged = grid and grid.pipeline
  -- dropout and parts of the layers: what a mesh of stages draws is another
  if %s then k, dropout, optimizer = 2, 0, optimizer == "muon" and "adamw" or optimizer end
  if %s then decay = 0 end
  collectgarbage() collectgarbage()
  mrt.seed(seed)
  local n, batches = size "data" * size "shard" * size "expert", {}
  local rows, place = 8 // n, comm.rank // inner %% n
  for i = 1, 4 do
    local whole = kind == "mlp" and mrt.randn(8, 32) or mrt.randint(0, 40, { 8, 9 })
    local part = whole:slice(1, place * rows + 1, (place + 1) * rows)
    batches[i] = kind == "mlp" and { mrt.eval(part:slice(2, 1, 16) + 0, part:slice(2, 17, 32) + 0) }
      or { mrt.eval(part:slice(2, 1, 8) + 0, part:slice(2, 2, 9) + 0) }
    whole:free()
  end
  collectgarbage() collectgarbage()
  local before = mrt.memory().now
  mrt.seed(seed)
  local model = kind == "gpt" and nn.GPT { vocab = 40, context = 8, layers = layers, heads = heads,
      dim = 32, dropout = dropout, tie = tie }
    or kind == "llama" and nn.Llama { vocab = 40, context = 8, layers = layers, heads = 4,
      kv_heads = heads, dim = 32, hidden = 48, tie = tie }
    or kind == "experts" and nn.Decoder { vocab = 40, context = 8, layers = layers, heads = heads,
      dim = 32, hidden = 48, tie = tie, experts = { count = 4, top = 2, hidden = 24,
      shared = pick { 16, false } or nil } }
    or nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 16), nn.Tanh(),
      nn.Linear(16, 16))
  local told = pick { false, false, true } -- a result with a row for each row of the batch
  local params = model:parameters()
  local opt = optim[optimizer](params, { lr = optimizer == "sgd" and 0.1 or 1e-3,
    state = state or nil })
  local o = { accumulate = k }
  if grid then
    o.mesh = grid
    grid.comm, grid.sequence = comm, sequence
    o.shard = stage and n > 1 and policy.shard.zero(stage) or nil
    o.checkpoint, o.compress = checkpoint or nil, compress or nil
  end
  local function planned()
    mrt.seed(seed)
    local step = mrt.compile(function(x, y)
      local out = (kind == "mlp" or told) and model(x)
      local loss = kind == "mlp" and ((out - y):pow(2)):mean()
        or told and nn.cross_entropy(out, y) or model:loss(x, y)
      if decay > 0 then loss = loss + decay * params[#params]:square():sum() end
      opt:step(mrt.grad(loss, params), { clip = clip or nil })
      return loss, told and out or nil
    end, o)
    return step, step:plan(table.unpack(batches[1]))
  end
  local step, plan = planned()
  if grid and budget then
    local held = plan.pipeline and plan.pipeline.held or 0
    o.memory = math.floor(plan.peak - (1 - budget) * (plan.transient + held))
    local ok, other, within = pcall(planned)
    assert(ok or other.code == "budget", tostring(other))
    assert(not ok or within.peak <= o.memory)
    o.memory = nil
    -- of a mesh of stages some may not fit: then all do without
    if staged then ok = comm:allreduce({ ok and 1 or 0 }, { op = "min" })[1] == 1 end
    if ok then step, plan = other, within else step, plan = planned() end
  end
  -- By no operator, which takes memory.
  local function mean_of(list)
    if type(list) == "number" then return math.abs(list) end
    local sum = 0
    for _, part in ipairs(list) do sum = sum + mean_of(part) end
    return sum / #list
  end
  local words = {}
  for i, batch in ipairs(batches) do
    local loss, out = step(table.unpack(batch))
    words[#words + 1] = loss:item()
    loss:free()
    if out then
      words[#words + 1] = mean_of(out:totable())
      out:free()
    end
    if i == 1 then
      collectgarbage() collectgarbage()
      mrt.memory { reset = true }
    end
  end
  collectgarbage() collectgarbage()
  local inputs = plan.inputs
  for _, x in ipairs(batches[1]) do inputs = inputs - x:nbytes() end
  local taken = mrt.memory().peak - before - inputs
  assert(not grid or taken == plan.peak, ("seed %%d, %%s, %%s: %%d bytes taken, %%d planned")
    :format(seed, kind, optimizer, taken, plan.peak))
  words = comm:allreduce(words, { op = "mean" })
  if staged then mrt.pipeline.collect(step) end
  for _, p in ipairs(params) do
    words[#words + 1] = p:to "f64":abs():sum():item()
  end
  for i, w in ipairs(words) do words[i] = ("%%.17g"):format(w) end
  words[#words + 1] = kind .. " " .. optimizer .. (state and " state" or "")
    .. (compress and grid and " compressed" or "")
  return table.concat(words, " ")
]]

local grids = { "{ expert = 2 }", "{ tensor = 2 }", "{ tensor = 4 }", "{ tensor = 2, data = 2 }",
  "{ tensor = 2, shard = 2 }", "{ data = 2, shard = 2 }", "{ context = 2 }", "{ context = 4 }",
  "{ context = 2, tensor = 2 }", "{ pipeline = 2 }", "{ pipeline = 2, tensor = 2 }",
  "{ pipeline = 2, context = 2 }", "{ pipeline = 2, data = 2 }", "{ pipeline = 2, shard = 2 }",
  "{ pipeline = 4 }", "{ expert = 2, tensor = 2 }", "{ expert = 2, data = 2 }",
  "{ expert = 2, shard = 2 }", "{ expert = 2, pipeline = 2 }", "{ expert = 4 }",
  "{ expert = 2, context = 2 }" }

local count = os.getenv "MRT_SPEC_LEAN" and 2 or tonumber(os.getenv "MRT_SPEC_GRAPHS") or 10
local first = tonumber(os.getenv "MRT_SPEC_SEED") or 1

local function size_of(grid)
  local n = 1
  for k in grid:gmatch "= (%d+)" do n = n * k end
  return n
end

-- Muon orthogonalises, Lion takes signs of what is near 0: rounding shows sooner, and of
-- what is kept compressed more than rounding.  Then losses are compared, not weights.
local function tolerance(text)
  local rough = text:find "compressed" or text:find "muon" or text:find "lion"
    or text:find "state"
  return text:find "compressed" and 0.05 or rough and 2e-3 or 2e-5, rough and 4 or math.huge
end

local function compare(wanted, got, about)
  local numbers = {}
  for w in wanted:gmatch "%S+" do numbers[#numbers + 1] = tonumber(w) end
  local loose, last = tolerance(got)
  local at = 0
  for w in got:gmatch "%S+" do
    local x = tonumber(w)
    at = at + 1
    if x and numbers[at] and at <= last then
      assert(math.abs(x - numbers[at]) <= loose * math.max(1, math.abs(numbers[at])),
        ("%s: number %d is %s, %s wanted (%s)"):format(about, at, w, numbers[at],
          got:match "%a.*$"))
    end
  end
  assert(at >= #numbers)
end

describe("meshes with all techniques", function()
  it("train as one rank does, and take what was planned", function()
    for seed = first, first + count - 1 do
      local grid = grids[1 + seed % #grids]
      local staged = tostring(grid:find "pipeline" ~= nil)
      local wanted = ranks.alike(1, code:format(seed, "nil", staged, staged))
      local got = ranks.alike(size_of(grid), code:format(seed, grid, staged, staged))
      compare(wanted, got, ("seed %d, mesh %s"):format(seed, grid))
    end
  end)
end)
