--- experts.lua -- a feed-forward half of many, of which each token sees a few
---
--- Shazeer et al. 2017 (arXiv:1701.06538), as Mixtral and Qwen have it: a router gives
--- each expert a probability, and a token goes to the `top` most likely.  Tokens are
--- sorted by expert, each group is multiplied by the matrices of its own
--- (grouped_matmul), and comes back to its place: each token costs `top` experts, not
--- all, and how many go where is known only when the step runs, though its memory is
--- known before.
---
--- Sorting mixes the samples of a batch, though each result is one sample's alone: the
--- layer says so, for micro-batches and pipelines (row_by_row).  Ranks share the experts
--- with `mesh = { expert = n }`.  Adapters and quantisation take linear layers, and leave
--- these stacked weights as they are.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local MLP = require "mrt.nn.decoder.mlp"
local parameter = require "mrt.nn.parameter"

--- `[..., dim]` -> `[..., dim]`.  The weights of all experts lie together.
---@class mrt.nn.decoder.Experts: mrt.nn.Module
---@field gate mrt.Tensor  `[count, hidden, dim]`
---@field up mrt.Tensor    `[count, hidden, dim]`
---@field down mrt.Tensor  `[count, dim, hidden]`
local Experts = Module("DecoderExperts", "tensor")

---@param o mrt.nn.DecoderOptions
---@param init {inner: mrt.nn.Recipe, last: mrt.nn.Recipe}
function Experts:init(o, init)
  local e = o.experts
  self.among, self.top, self.normalize = e.count, e.top, e.normalize
  self.activation = o.activation
  self.router = Linear(o.dim, e.count, { bias = false, init = init.inner })
  if o.gated then self.gate = parameter("Experts", init.inner, e.count, e.hidden, o.dim) end
  self.up = parameter("Experts", init.inner, e.count, e.hidden, o.dim)
  self.down = parameter("Experts", init.last, e.count, o.dim, e.hidden)
  if e.shared then
    self.shared = MLP(o, init, e.shared)
    self.shared_gate = Linear(o.dim, 1, { bias = false, init = init.inner })
  end
end

-- How much of each chosen expert a token takes, and which they are: [N,top] both.
local function route(self, x)
  local logits = self.router(x)
  local wide = logits:get_dtype() == "f64" and "f64" or "f32"
  local share, expert = logits:to(wide):softmax(-1):topk(self.top, -1)
  if self.normalize then share = share / share:sum(-1, true) end
  return share:to(x:get_dtype()), expert
end

-- What the experts make of rows that are sorted by expert, `counts` of each.
local function apply(self, rows, counts)
  local act = MLP.activations[self.activation]
  local function through(y, weight) return y:grouped_matmul(weight:transpose(2, 3), counts) end
  local h
  if self.gate then
    h = act(through(rows, self.gate)) * through(rows, self.up)
  else
    h = act(through(rows, self.up))
  end
  return through(h, self.down)
end

function Experts:forward(x)
  local dims = x:size()
  local dim, rows = dims[#dims], x:reshape(-1, dims[#dims])
  local N = rows:size(1)
  local share, expert = route(self, rows)
  local of = expert:reshape(N * self.top)
  local _, order = of:sort()   -- of pairs of a token and its expert, by expert
  local _, back = order:sort() -- where each pair is then
  local made = apply(self, rows:embedding(order // self.top), of:bincount { size = self.among })
  local y = (made:embedding(back):reshape(N, self.top, dim) * share:unsqueeze(3)):sum(2)
  if self.shared then y = y + self.shared_gate(rows):sigmoid() * self.shared(rows) end
  return core.op.row_by_row(y:reshape(dims), x)
end

function Experts:describe()
  return ("%d of %d%s"):format(self.top, self.among, self.shared and ", one shared" or "")
end

return Experts
