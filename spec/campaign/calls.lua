--- calls.lua -- random calls of every public function and method
---
--- Arguments are mostly of the types that the comments of lua/mrt and the
--- operators' table give, results flow back into the pool that arguments come
--- from, and some calls are made while a step is traced or from callbacks.  A call
--- must return, or raise a text at the line that called.  All else is a finding:
--- what a sanitizer says and a crash end the process, the rest is collected.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local types = require "campaign.calls.types"
local values = require "campaign.calls.values"

local CALLS <const> = 3000
local MOST_ELEMENTS <const> = 1 << 14
local MOST_VALUES <const> = 80
local SECONDS <const> = 10

-- Not called, and why.
local left_out = {
  ["device.find"] = "measures the machine for minutes and writes a cache at home",
  ["device.profile"] = "the same", ["device.ready"] = "the same", ["device.use"] = "the same",
  ["device.share"] = "waits for other ranks", ["communicator.ranks"] = "starts processes",
}

-- Methods of objects that the library calls itself, behind the checks of others.
local inner = { forward = true, init = true, describe = true, count = true, replanner = true,
  core = true, new = true }

-- What takes a path: every text among the arguments is one in the round's folder.
local takes_path = { save = true, load = true, open = true, swap_folder = true, log = true,
  run = true, snapshots = true, read_log = true, text = true, csv = true, npy = true,
  idx = true, cifar10 = true, cifar100 = true, stream = true, tokens = true, bpe = true,
  gpt2 = true, resume = true, begin = true }

local function sorted(t)
  local names = {}
  for name in pairs(t) do if type(name) == "string" then names[#names + 1] = name end end
  table.sort(names)
  return names
end

local function callable(value)
  local meta = debug.getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
end

-- All public functions: a list of { path, function }.
local surface = {}
local function gather(prefix, t)
  for _, name in ipairs(sorted(t)) do
    local path, value = prefix .. name, t[name]
    if not left_out[path] and not name:find "^__" then
      if callable(value) then surface[#surface + 1] = { path = path, name = name, f = value } end
      -- what a class has inside is called on its objects
      if type(value) == "table" and prefix ~= "" and not callable(value) then
        gather(path .. ".", value)
      end
    end
  end
end
gather("", mrt)
for _, module in ipairs(sorted(getmetatable(mrt).__fields[1])) do
  -- mrt.plan is a class: its methods are called on plans
  if not mrt[module].__index then gather(module .. ".", mrt[module]) end
end

-- Tensors can do most: a third of all calls.
local methods = {}
for _, name in ipairs(sorted(core.methods)) do
  methods[#methods + 1] = { path = "Tensor:" .. name, name = name, f = core.methods[name] }
end

local metamethods = {
  ["+"] = function(x, y) return x + y end, ["-"] = function(x, y) return x - y end,
  ["*"] = function(x, y) return x * y end, ["/"] = function(x, y) return x / y end,
  ["//"] = function(x, y) return x // y end, ["%"] = function(x, y) return x % y end,
  ["^"] = function(x, y) return x ^ y end, ["unary -"] = function(x) return -x end,
  ["#"] = function(x) return #x end, ["=="] = function(x, y) return x == y end,
  ["<"] = function(x, y) return x < y end, ["<="] = function(x, y) return x <= y end,
  tostring = function(x) return tostring(x) end, index = function(x, y) return x[y] end,
  [".."] = function(x, y) return x .. y end, call = function(x, y, z) return x(y, z) end,
  ["set index"] = function(x, y, z) x[y] = z end,
  close = function(x) local _ <close> = x end,
}
local operators = sorted(metamethods)

local made, depth, findings, traced

local function at_caller(text) return text:find "spec/campaign/[%w_/]+%.lua:%d+: " end

local function judge(what, err)
  local kind = type(err)
  local text = tostring(err)
  if kind ~= "string" and not (kind == "table" and next(err) == nil)
    and not (pcall(function() return err.code and err.message end) and err.code) then
    findings["an error of type " .. kind .. ": " .. what] = text
  elseif text:find "campaign: too long" then
    findings["takes longer than " .. SECONDS .. " s: " .. what] = text
  elseif text:find "^[^\n]-lua/mrt/[%w_/]+%.lua:%d+: " then
    findings["reports a library line: " .. what] = text:match "[^\n]*"
  elseif kind == "string" and not at_caller(text) and not text:find "not enough memory" then
    findings["reports no line: " .. what] = text:match "[^\n]*"
  end
end

local function keep(value)
  if value == nil or type(value) == "number" or type(value) == "string" then return end
  if core.is_tensor(value) then
    local ok, n = pcall(core.methods.numel, value)
    if not ok or n > MOST_ELEMENTS then return end
  end
  local pool = values.pool
  if #pool < MOST_VALUES then
    pool[#pool + 1] = value
  else
    pool[math.random(#pool)] = value
  end
end

-- The time is asked for while Lua runs; a kernel that hangs is the driver's.
local deadline
local function watch()
  if os.clock() > deadline then error "campaign: too long" end
end

local function call(what, f, args)
  made = made + 1
  if traced then io.stderr:write(("%d %s\n"):format(made, what)) end
  local outer = deadline
  if depth == 0 then deadline = os.clock() + SECONDS end
  depth = depth + 1
  local got = table.pack(pcall(function()
    local a, b, c = f(table.unpack(args, 1, args.n))
    return a, b, c
  end))
  depth, deadline = depth - 1, outer
  if traced then io.stderr:write("  ", got[1] and "returns" or tostring(got[2]), "\n") end
  if not got[1] then
    judge(what, got[2])
  else
    for i = 2, got.n do keep(got[i]) end
    return got[2], got[3]
  end
end

local function arguments(name, self)
  local args = { n = 0 }
  local function add(value)
    args.n = args.n + 1
    args[args.n] = value
  end
  if self ~= nil then add(self) end
  local known = types.signatures[name]
  if known and math.random() < 0.93 then
    local signature = values.one(known)
    for i, p in ipairs(signature) do
      if self ~= nil and i == 1 and p.type == "mrt.Tensor" and p.name:find "^x" then goto next end
      if p.optional and math.random() < 0.4 then
        if math.random() < 0.7 then break end
        add(nil)
      else
        for _ = 1, p.name == "..." and math.random(0, 3) or 1 do add(values.of(p.type)) end
      end
      ::next::
    end
  else
    for _ = 1, math.random(0, 4) do add(values.any()) end
  end
  if takes_path[name] then
    for i = self ~= nil and 2 or 1, args.n do args[i] = values.in_folder(args[i]) end
  end
  return args
end

local function class_of(value)
  local meta = debug.getmetatable(value)
  local name = type(meta) == "table" and rawget(meta, "__name")
  return type(name) == "string" and name or type(value)
end

-- A method of whatever the library has returned.
local function of_object()
  local object = values.one(values.pool)
  if object == nil then return end
  local meta = debug.getmetatable(object)
  local index = type(meta) == "table" and meta.__index
  if type(index) ~= "table" then index = type(object) == "table" and object or {} end
  local names = {}
  for _, name in ipairs(sorted(index)) do
    if type(index[name]) == "function" and not name:find "^__" and not inner[name] then
      names[#names + 1] = name
    end
  end
  local name = values.one(#names > 0 and names or { "state", "parameters", "close", "step" })
  local what = class_of(object) .. ":" .. name
  call(what, function(self, ...) return self[name](self, ...) end, arguments(name, object))
end

-- A step, traced and run twice: its function makes calls of its own.
local function compiled()
  local seed = math.random(1 << 30)
  local options = math.random() < 0.5 and values.of "mrt.CompileOptions" or nil
  local step = call("compile", mrt.compile, { n = 2, function(...)
    return values.inner(...), seed
  end, options })
  for _ = 1, step and 2 or 0 do
    call("compiled step", step, { n = 2, values.tensor(), values.tensor() })
  end
end

local function random_call()
  local kind = math.random(20)
  if kind <= 7 then
    local m = values.one(methods)
    local self = math.random() < 0.97 and values.tensor() or values.any()
    call(m.path, m.f, arguments(m.name, self))
  elseif kind <= 13 then
    local s = values.one(surface)
    call(s.path, s.f, arguments(s.name))
  elseif kind <= 15 then
    of_object()
  elseif kind <= 17 then
    local x = math.random() < 0.8 and values.tensor() or values.one(values.pool)
    local args = { n = 3, x, values.any(), values.any() }
    if math.random() < 0.2 then args[1], args[2] = args[2], args[1] end
    local name = values.one(operators)
    call(name .. " of " .. class_of(args[1]), metamethods[name], args)
  elseif kind == 18 then
    local x = values.tensor()
    if x then call("eval", mrt.eval, { n = 1, x }) end
  elseif kind == 19 then
    local y, x = values.tensor(), values.tensor()
    if x and y then call("grad", mrt.grad, { n = 3, y, x, { allow_unused = true } }) end
  elseif math.random() < 0.3 and depth == 0 then
    compiled()
  elseif math.random() < 0.5 then
    collectgarbage(math.random() < 0.2 and "collect" or "step")
  else
    local x = values.tensor()
    keep(x)
    if math.random() < 0.2 then
      setmetatable({}, { __gc = function()
        if depth == 0 and x then pcall(core.methods.sum, x) end
      end })
    end
  end
end

--- What a callback does: a few calls, and returns something.
function values.inner(x, ...)
  keep(x)
  if depth < 3 then
    for _ = 1, math.random(0, 3) do random_call() end
  end
  return math.random() < 0.5 and x or values.tensor(), ...
end

local function round(seed, folder)
  values.folder, traced = folder, os.getenv "MRT_CAMPAIGN_TRACE"
  made, depth, findings = 0, 0, {}
  math.randomseed(seed)
  mrt.seed(seed)
  core.set_budget(math.random() < 0.2 and 100000 or 64 << 20)
  values.begin()
  deadline = math.huge
  debug.sethook(watch, "", 10000)
  while made < CALLS do random_call() end
  debug.sethook()
  values.pool = {}
  collectgarbage()
  local list = sorted(findings)
  for i, what in ipairs(list) do list[i] = what .. ": " .. findings[what] end
  return made, list
end

return {
  about = "random calls of every public function and method",
  unit = "calls",
  program = "sanitized",
  round = round,
}
