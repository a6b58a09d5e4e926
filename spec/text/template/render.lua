--- render.lua -- renders templates for compare.py: JSON lines in, JSON lines out
---
---     build/mrt spec/text/template/render.lua cases.jsonl
---
--- A case is {template, values, spans?}; an answer {text, spans?} or {error}.
---
--- SPDX-License-Identifier: MIT

local json = require "mrt.text.template.json"
local runs = require "mrt.text.template.run"
local template = require "mrt.text.template"
local value = require "mrt.text.template.value"

local limits = { steps = 1e12 // 1, bytes = 1e12 // 1, depth = 100 }
local style = { item_separator = ", ", key_separator = ": " }

local function answer(case)
  local t, message = template(case.template)
  if not t then return { error = "parse: " .. message } end
  local text, spans = t:render_spans(case.values, { now = case.now })
  if not text then return { error = spans } end
  return { text = text, spans = spans }
end

for line in io.lines(arg[1]) do
  local result = answer(json.decode(line))
  print(json.encode(runs.new(limits), value.from(result, "answer"), style))
end
