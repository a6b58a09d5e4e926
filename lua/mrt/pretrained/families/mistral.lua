--- mistral.lua -- Mistral: Llama with a window
---
--- SPDX-License-Identifier: MIT

local llama = require "mrt.pretrained.families.llama"
local windows = require "mrt.pretrained.windows"

return { family = {
  model_type = "mistral",
  architectures = { "MistralForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = llama.read(c)
    o.windows = windows.read_one(c, 4096)
    return o
  end,
  config = function(o)
    local out = llama.write(o)
    windows.write_one(o, out)
    return out
  end,
  names = llama.names(llama.layer),
} }
