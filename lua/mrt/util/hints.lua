--- hints.lua -- what PyTorch's words are here
---
--- People who come from PyTorch type `loss:backward()` first.  A name of its that there is
--- not here, and that no program in Lua has a reason to look for, is answered where it is
--- looked up:
---
---   calls  as a function, which raises with the remedy
---   reads  as nil, with one warning for each word
---   parts  as a table, each field of which raises
---
--- Other names are nil, as they are everywhere in Lua; where calling or indexing one fails,
--- the program adds to the message what is known of its name (`hints.of`).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local closest = require "mrt.util.closest"

local hints = {}

local GRADIENTS <const> = "gradients are tensors that are asked for: "
  .. "opt:step(mrt.grad(loss, model:parameters()))"
local FRESH <const> = "nothing to do: each mrt.grad returns new gradients, nothing adds up"
local NOTHING <const> = "nothing is recorded until mrt.grad(y, x) asks; x:detach() is a constant "
  .. "to it, model:eval() turns dropout off"
local DEVICE <const> = "mrt.device 'NAME:0', one that mrt info lists, is where tensors are made "
  .. "from then on; x:to 'NAME:0' copies one"
local DTYPE <const> = "dtypes are strings: 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'u8', 'bool'"
local STATE <const> = "model:state() is a table of tensors by name; "
  .. "mrt.save('model.safetensors', model:state())"
local LOAD <const> = "model:load_state(mrt.load 'model.safetensors')"
local RATE <const> = "a schedule is the option lr: "
  .. "optim.adamw(params, { lr = optim.cosine { ... } })"
local LOADER <const> = "mrt.data.batches({ x, y }, { batch = 64 }) makes mini-batches, "
  .. "mrt.data.text, tokens and stream read files"

local words = {}

words.tensor = {
  calls = { backward = GRADIENTS, retain_grad = GRADIENTS, register_hook = GRADIENTS,
    requires_grad_ = NOTHING, numpy = "x:totable() is a table of Lua, x:item() a number, "
    .. "mrt.save('x.npy', x) a file for numpy", tolist = "x:totable()", cuda = DEVICE,
    half = "x:to 'f16'", bfloat16 = "x:to 'bf16'", cpu = "x:to 'cpu'" },
  reads = { grad = GRADIENTS, grad_fn = GRADIENTS, requires_grad = NOTHING, is_leaf = NOTHING,
    data = "x:detach() is x without its history", ndim = "x.rank, or x:dim()", device = DEVICE,
    is_cuda = DEVICE },
}

words.module = {
  calls = { zero_grad = FRESH, state_dict = STATE, load_state_dict = LOAD, cuda = DEVICE,
    named_children = "model:modules() iterates over names and modules, this one first",
    named_modules = "model:modules() iterates over names and modules, this one first",
    register_parameter = "assign it: self.weight = mrt.parameter(t)",
    add_module = "assign it: self.fc = nn.Linear(2, 3); a list of modules may be a field",
    requires_grad_ = "model:freeze() leaves parameters out of model:parameters()",
    register_forward_hook = "forward is Lua: write what is to happen around the call" },
}

words.optimizer = {
  calls = { zero_grad = FRESH, state_dict = "opt:state() is a table of tensors by name",
    load_state_dict = "opt:load_state(state)",
    add_param_group = "groups are given at first: "
    .. "optim.adamw({ { params = p, lr = 1e-3 }, ... })" },
  reads = { param_groups = "opt.lr is the learning rate and may be set; optim.groups splits "
    .. "parameters" },
}

words.nn = {
  calls = { Parameter = "mrt.parameter(mrt.randn(2, 3))", Dense = "nn.Linear(inputs, outputs)",
    DataParallel = "mrt launch starts ranks, mrt.compile's option shard divides the work" },
  parts = { functional = "a method of tensors or a function of nn: x:relu(), nn.cross_entropy",
    utils = "optim.clip_grad_norm, or opt:step(grads, { clip = 1 })" },
}

words.optim = {
  parts = { lr_scheduler = RATE, swa_utils = "optim.ema(params)" },
}

words.data = {
  calls = { DataLoader = LOADER, Dataset = LOADER, TensorDataset = LOADER,
    IterableDataset = "mrt.data.stream", random_split = "mrt.data.text and tokens have split(0.9); "
    .. "of tensors, x[{ {1, n} }] and x[{ {n + 1} }]" },
}

words.mrt = {
  calls = { manual_seed = "mrt.seed(1)", no_grad = NOTHING, enable_grad = NOTHING,
    inference_mode = NOTHING, set_grad_enabled = NOTHING, is_grad_enabled = NOTHING,
    Tensor = "mrt.tensor { 1, 2 } has these elements, mrt.zeros(2, 3) this shape",
    FloatTensor = "mrt.tensor({ 1, 2 }, 'f32')", LongTensor = "mrt.tensor({ 1, 2 }, 'i64')",
    as_tensor = "mrt.tensor { 1, 2 }",
    from_numpy = "mrt.load 'x.npy' reads an array that numpy saved",
    concat = "mrt.cat({ x, y }, dim)", vmap = "operators broadcast; mrt.stack joins results",
    set_default_dtype = "each tensor says: mrt.zeros({ 2 }, { dtype = 'f64' }); "
    .. "policy.precision is for a whole step" },
  reads = { float32 = DTYPE, float64 = DTYPE, float16 = DTYPE, bfloat16 = DTYPE, int64 = DTYPE,
    int32 = DTYPE, uint8 = DTYPE },
  parts = { autograd = GRADIENTS, cuda = DEVICE, backends = DEVICE, utils = LOADER,
    amp = "mrt.compile(f, { precision = mrt.policy.precision.bf16 })",
    distributed = "mrt launch starts ranks, mrt.communicator joins them",
    jit = "mrt.compile(f)" },
}

--- Names of other languages and libraries, typed where Lua wants a name that there is.
---@type table<string, string>
hints.globals = {
  torch = "torch is mrt here: mrt.randn, mrt.nn, mrt.optim", F = words.nn.parts.functional,
  np = "arrays are tensors: mrt.tensor, mrt.arange, mrt.linspace",
  numpy = "arrays are tensors: mrt.tensor, mrt.arange, mrt.linspace",
  DataLoader = LOADER, None = "it is nil in Lua", True = "it is true in Lua",
  False = "it is false in Lua", null = "it is nil in Lua", len = "#x is the length of x",
  range = "for i = 1, n do ... end counts, mrt.arange(n) is a tensor",
  str = "tostring(x)", int = "math.floor(x), or x:to 'i64'", exit = ":quit leaves",
  quit = ":quit leaves", dir = "Tab after a dot shows what there is", enumerate =
  "for i, x in ipairs(list) do ... end", isinstance = "type(x), mrt.is_tensor(x)",
  self = "a method has a colon: function Net:forward(x) ... end", f = "('%.2f'):format(x)",
}

local IMPORT <const> = "local mrt = require 'mrt'; local nn, optim = mrt.nn, mrt.optim"

-- What Python's sentences are in Lua.
local sentences = {
  { "^%s*import%s", IMPORT }, { "^%s*from%s+%S+%s+import%s", IMPORT },
  { "^%s*def%s", "a function is: function f(x) return x end" },
  { "^%s*class%s", "a class of modules is: local Net = nn.Module 'Net'" },
  { "^%s*with%s", NOTHING }, { "^%s*print%s+[%a_]", "print(x)" },
  { "[%w_%])]%s*[-+*/]=[^=]", "x = x + 1 is written out in Lua" },
  { "!=", "unequal is ~= in Lua" }, { "%*%*", "a power is x ^ 2 in Lua" },
  { "lambda%s", "a function is: function(x) return x end" },
  { "[%w_%])]%s+@%s+[%a_(]", "a matrix product is x:matmul(y)" },
  { "[(,=]%s*%[[^%[=]", "a list is { 1, 2 } in Lua" },
  { "%([^(){}]*[%a_][%w_]*%s*=[^=]", "named arguments stand in a table: f(x, { lr = 0.1 })" },
  { "[,)]%s*[%a_][%w_]*%s*=[^=][^(){}]*%)", "named arguments stand in a table: "
    .. "f(x, { lr = 0.1 })" },
  { ":%s*$", "a block is: for ... do ... end, if ... then ... end, function f(x) ... end" },
}

local blocks = { ["for"] = true, ["if"] = true, ["while"] = true, ["else"] = true,
  def = true, with = true, class = true, elif = true, try = true }

--- Does this line begin a block of Python, for which Lua would wait in vain?
---@param line string
---@return boolean
function hints.is_block(line)
  return line:find ":%s*$" ~= nil and blocks[line:match "^%s*(%a+)"] == true
end

--- What a text that does not compile may have been meant for.
---@param source string
---@return string?
function hints.sentence(source)
  for _, s in ipairs(sentences) do
    if source:find(s[1]) then return s[2] end
  end
end

-- ---- where names are looked up -------------------------------------------------

-- A function that raises; behind one of C the line that calls it is known.
local function refuser(name, text)
  return core.front(function() core.fail("value", nil, ("%s: %s"):format(name, text)) end)
end

local function part(name, text)
  local function refuse(_, key)
    core.fail("value", nil, ("%s.%s: %s"):format(name, tostring(key), text))
  end
  return setmetatable({}, { __index = refuse, __call = refuse,
    __tostring = function() return ("%s: %s"):format(name, text) end })
end

local said = {}

--- Forget which words were warned of: the prompt does so for each line.
function hints.again() said = {} end

-- Options that PyTorch has where there are none here.
local options = { requires_grad = "every tensor has gradients: mrt.grad(y, x)", device = DEVICE,
  out = "a result is a new tensor", inplace = "a result is a new tensor",
  num_layers = "here it is 'layers'", batch_size = "here it is 'batch'",
  kernel_size = "the kernel is the third argument: nn.Conv2d(3, 64, 3, { padding = 1 })" }

--- What is to be said of an option that there is not.
---@param name any
---@return string?
function hints.option(name) return options[name] end

local function say(name, text)
  if said[name] then return nil end
  said[name] = true
  warn("mrt: ", name, ": ", text)
end

--- Answer for a name that there is not; nil if it is nobody's.
---@param kind "tensor"|"module"|"optimizer"|"nn"|"optim"|"data"|"mrt"
---@param name any
---@return any
function hints.answer(kind, name)
  local list = words[kind]
  if list.calls and list.calls[name] then return refuser(name, list.calls[name]) end
  if list.parts and list.parts[name] then return part(name, list.parts[name]) end
  if list.reads and list.reads[name] then say(name, list.reads[name]) end
  return nil
end

--- What PyTorch does to a tensor in place, if this is the name of such a method.
---@param name string
---@param methods table<string, function>
---@return function?
function hints.in_place(name, methods)
  local base = name:match "^(%a[%w_]*%w)_$"
  if not base or not (methods[base] or base == "zero" or base == "fill" or base == "copy"
    or base == "uniform" or base == "normal") then
    return nil
  end
  return refuser(name, "no method changes its tensor: x = x:f(...) makes a new one, "
    .. "w:assign(v) sets a variable, x[...] = v a part")
end

--- What is to be said of a field that cannot be set.
---@param name string
---@return string?
function hints.set(name) return words.tensor.reads[name] end

--- Let a table of ours answer for PyTorch's names; those that differ in case alone are
--- found too.
---@param kind "nn"|"optim"|"data"|"mrt"
---@param t table
---@return table t
function hints.attach(kind, t)
  local cased
  return setmetatable(t, { __index = function(_, name)
    if type(name) ~= "string" then return nil end
    local answer = hints.answer(kind, name)
    if answer ~= nil or not name:find "^%u" then return answer end
    if not cased then
      cased = {}
      for key in next, t do cased[key:lower()] = key end
    end
    local ours = cased[name:lower()]
    return ours and refuser(name, ("here it is %s.%s"):format(kind, ours)) or nil
  end })
end

-- ---- of a message of Lua's ----------------------------------------------------------

-- The names that there are, and what stands before them: of methods where one is called.
-- Classes have capitals.
local function known(how, name)
  local mrt = package.loaded.mrt or {}
  local nn, optim = rawget(mrt, "nn") or {}, rawget(mrt, "optim") or {}
  if how == "method" then
    return { { "", core.methods }, { "", nn.Module or {} }, { "", optim.Optimizer or {} } }
  end
  local list = { { "mrt.", mrt }, { "nn.", nn }, { "optim.", optim } }
  if name:find "^%u" then table.insert(list, 1, table.remove(list, 2)) end
  return list
end

-- Fields that are called, and others that Lua says it cannot do.
local function of_fields(message)
  local name = message:match "attempt to call a %a+ value %(%a+ '([%w_]+)'%)"
  if name == "shape" or name == "dtype" or name == "rank" or name == "T" or name == "name" then
    return ("x.%s is a field, without parentheses"):format(name)
  end
end

local function word_of(name)
  for _, kind in pairs(words) do
    for _, list in pairs(kind) do
      if list[name] then return list[name] end
    end
  end
end

--- What to add to a message of Lua's own, "attempt to call a nil value (method 'x')".
---@param message string
---@return string?
function hints.of(message)
  local how, name = message:match "attempt to call a nil value %((%a+) '([%w_]+)'%)"
  if how == "global" then return nil end
  if not name then name = message:match "a nil value %(field '([%w_]+)'%)" end
  if not name then return of_fields(message) end
  local word = word_of(name)
  if word then return word end
  if how == "field" and core.methods[name] then
    return ("it is a method of tensors: x:%s(), or mrt.%s(x)"):format(name, name)
  end
  for _, names in ipairs(how and known(how, name) or {}) do
    local near = closest(name, names[2])
    if near then return ("did you mean %s%s?"):format(names[1], near) end
  end
end

return hints
