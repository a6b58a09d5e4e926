--- mistral.lua -- Mistral: Llama with a window
---
--- SPDX-License-Identifier: MIT

local llama = require "mrt.pretrained.families.llama"

return { family = {
  model_type = "mistral",
  architectures = { "MistralForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = llama.read(c)
    local window = c:maybe("sliding_window", "size")
    o.windows = window and window - 1
    return o
  end,
  config = function(o)
    local out = llama.write(o)
    out.sliding_window = o.windows[1] and o.windows[1] + 1
    return out
  end,
  names = llama.names(llama.layer),
} }
