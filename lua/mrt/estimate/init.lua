--- mrt.estimate -- memory of a model from its description, without a graph
---
---     local e = mrt.estimate
---     e.layer{sequence = 2048, dim = 12288, heads = 96}    -- bytes a layer keeps
---     e.boundary{tokens = 1e6, dim = 2560, layers = 32}    --> 163840000000
---     e.states{parameters = 175e9}.literature              --> 2100000000000
---     print(e.gpt3.text())                                 -- the whole table
---
--- Numbers are bytes unless said otherwise, parameters are counts, and a share of
--- a rank is rounded up to whole bytes.  Values are exact to 2^53.  A plan is the
--- truth about a step; an estimate is what one can say before there is one.
---
--- Sources: Korthikanti et al. 2022 (arXiv:2205.05198), Rajbhandari et al. 2019
--- (arXiv:1910.02054), Brown et al. 2020 (arXiv:2005.14165).
---
--- SPDX-License-Identifier: MIT

local layers = require "mrt.estimate.layers"
local read = require "mrt.estimate.read"
local states = require "mrt.estimate.states"
local transformer = require "mrt.estimate.transformer"

---@class mrt.estimate
---@field dtypes table<string, integer>  bytes of an element, by dtype
local estimate = {
  matmul = layers.matmul, linear = layers.linear, conv2d = layers.conv2d,
  layer = transformer.layer, activations = transformer.activations,
  boundary = transformer.boundary, parameters = transformer.parameters,
  flops = transformer.flops, states = states.states, zero = states.zero,
  gpt3 = require "mrt.estimate.gpt3",
  dtypes = read.dtypes, ---@type table<string, integer> bytes of an element
}

return estimate
