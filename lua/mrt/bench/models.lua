--- mrt bench models -- published families beside transformers: logits, gradients, files
--
--     mrt bench models [--python PATH] [--only NAME,NAME] [--keep FOLDER] [--random N [--seed S]]
--
-- models.py makes a small random model of each family with transformers and saves it.
-- mrt loads the folder; of each there is a row: the largest difference of logits over the
-- largest logit; the largest relative error of a tensor's gradient (by norms; tensors whose
-- gradient is below a thousandth of the largest, such as biases of keys, against that);
-- the same model in bf16, its distance from the rounded weights computed in f32, and that of
-- transformers in bf16; and the logits of what mrt saved, read back by transformers.
--
-- With --random there are N configurations instead that nobody wrote down (models_draw.py), the
-- families in turn, config.json in one of several published forms; NAME#K is the same each time,
-- K from S (1) on.  Rows are those that are further off than others, or refused.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local families = require "mrt.pretrained.families"
local weights = require "mrt.pretrained.weights"
local nn = mrt.nn

local needs <const> = "transformers and torch are wanted: PYTHON -m pip install torch "
  .. "transformers safetensors, then mrt bench models --python PYTHON"

local flags = { python = true, only = true, keep = true, random = true, seed = true }

local function read_flags(args)
  local o = { python = os.getenv "PYTHON" or "python3", only = "", seed = "1" }
  for i = 1, #args, 2 do
    local name = args[i]:match "^%-%-(%a+)$"
    if not flags[name or ""] or not args[i + 1] then
      error("mrt bench models [--python PATH] [--only NAME,NAME] [--keep FOLDER] "
        .. "[--random N [--seed S]]", 0)
    end
    o[name] = args[i + 1]
  end
  return o
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- What models.py prints; nil: it failed.
local function python(o, what, first, names, folder)
  local script = package.searchpath("mrt.bench.models", package.path):gsub("%.lua$", ".py")
  local pipe <close> = assert(io.popen(("%s %s %s %s %s 2>>%s"):format(quoted(o.python),
    quoted(script), what, first, names, quoted(folder .. "/stderr"))))
  local text = pipe:read "a"
  return pipe:close() and text or nil
end

local function away(got, wanted)
  return (got - wanted):abs():amax():item() / wanted:abs():amax():item()
end

-- The logits of what the other side read.
local function logits_of(model, ref)
  if ref.pixel_values then return model(ref.pixel_values) end
  return model(ref.input_ids, { mask = ref.attention_mask, types = ref.token_type_ids })
end

local function loss_of(model, ref)
  if not model.loss then return (logits_of(model, ref) * ref.factors):sum() end
  local tokens = ref.input_ids
  local last = mrt.full({ tokens:size(1), 1 }, -100):to(tokens:get_dtype())
  return model:loss(tokens, mrt.cat({ tokens:slice(2, 2, tokens:size(2)), last }, 2))
end

-- Gradients by the tensors of a file: norms of the difference and of what is wanted.
local function gradients(model, wanted, ref)
  local loss = loss_of(model, ref)
  local names, params = {}, {}
  for name, p in model:named_parameters() do
    names[#names + 1], params[#params + 1] = name, p
  end
  local own, theirs, list, most = {}, wanted:state(), {}, 0
  for i, g in ipairs(mrt.grad(loss, params)) do own[names[i]] = g end
  for _, place in ipairs(weights.places(model, families.find(model.family))) do
    local difference, size = 0, 0
    for _, part in ipairs(place.parts) do
      local a, b = own[part.name], theirs[part.name]
      difference = difference + ((a - b) ^ 2):sum():item()
      size = size + (b ^ 2):sum():item()
    end
    list[#list + 1] = { difference ^ 0.5, size ^ 0.5 }
    most = math.max(most, size ^ 0.5)
  end
  local worst = 0
  for _, one in ipairs(list) do worst = math.max(worst, one[1] / math.max(one[2], most / 1000)) end
  return worst
end

local function measure(folder, name)
  local path = folder .. "/" .. name
  local ref = assert(mrt.load(path .. ".ref.safetensors"))
  local model, narrow = assert(nn.load(path)), assert(nn.load(path .. ".bf16"))
  local row = { logits = away(logits_of(model, ref), ref.logits),
    gradient = gradients(model, assert(nn.load(path .. ".grad")), ref),
    bf16 = away(logits_of(narrow, ref):to "f32", ref.rounded),
    theirs = away(ref.bf16, ref.rounded), nearby = ref.nearby:item() }
  assert(model:save(path .. ".back"))
  return row
end

-- Name -> what `models.py back` says of it.
local function read_back(o, folder, names)
  local back, text = {}, python(o, "back", quoted(folder), table.concat(names, " "),
    folder) or ""
  for line in text:gmatch "[^\n]+" do
    local name, said = line:match "^(%S+) (.*)$"
    if name then back[name] = said end
  end
  return back
end

-- ---- rows --------------------------------------------------------------------

local head <const> = "family             logits   gradient  bf16     theirs   read back\n"

local function show(name, r, back)
  if r.failed then return ("%-18s %s\n"):format(name, r.failed) end
  return ("%-18s %-8.1e %-9.1e %-8.1e %-8.1e %s\n"):format(name, r.logits, r.gradient, r.bf16,
    r.theirs, back or "not read")
end

-- Is a row as good as rows are?
local function is_good(r, back)
  return not r.failed and r.logits <= 2e-5 and r.gradient <= math.max(1e-5, 30 * r.nearby)
    and r.bf16 <= 3 * r.theirs + 1e-2 and (tonumber(back) or 1) <= 2e-5
end

-- Of random ones, those that are not; and how many there are.  (A gradient that changes by as
-- much when weights are rounded otherwise is as good.)
local function show_random(names, rows, back)
  local good, refused, logits, gradient = 0, 0, 0, 0
  io.write(head)
  for _, name in ipairs(names) do
    local r = rows[name]
    if is_good(r, back[name]) then
      good, logits, gradient = good + 1, math.max(logits, r.logits), math.max(gradient, r.gradient)
    else
      if r.failed and r.failed:find("config.json: ", 1, true) then refused = refused + 1 end
      io.write(show(name, r, back[name]))
    end
  end
  io.write(("%d of %d agree, %d are refused by name: logits within %.1e, gradients within %.1e\n")
    :format(good, #names, refused, logits, gradient))
end

return function(...)
  local o = read_flags { ... }
  local folder = o.keep or os.tmpname() .. ".models"
  core.make_folders(folder)
  local wanted = o.only:gsub(",", " ")
  if o.random then wanted = python(o, "draw", o.random, o.seed, folder):gsub("%s+", " ") end
  local listed = python(o, "make", quoted(folder), wanted, folder)
  if not listed then error(needs .. "; what it said is in " .. folder .. "/stderr", 0) end
  local names, rows = {}, {}
  for name in listed:gmatch "%S+" do
    names[#names + 1] = name
    local ok, row = pcall(measure, folder, name)
    rows[name] = ok and row or { failed = tostring(row) }
  end
  local back = read_back(o, folder, names)
  if o.random then
    show_random(names, rows, back)
  else
    io.write(head)
    for _, name in ipairs(names) do io.write(show(name, rows[name], back[name])) end
  end
  if not o.keep then os.execute("rm -r " .. quoted(folder)) end
end
