--- reparametrize.lua -- weights that are computed of other parameters: weight norm, spectral
--- norm
---
--- The module's parameter gives way to those it is computed of, each time it is called, and a
--- field of the parameter's name holds the result of the last call.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local edit = require "mrt.nn.edit"
local options = require "mrt.util.options"
local trace = require "mrt.compile.trace"

local reparametrize = {}

-- The parameter that is to be computed, taken out of the module.
local function take(who, module, name)
  edit.want_module(who, module)
  local p = rawget(module, name)
  if not core.is_variable(p) then
    argument.refuse(who, "%s has no parameter '%s'", tostring(module.type), tostring(name))
  elseif p:dim() < 1 then
    core.fail("shape", who, ("'%s' is %s, a dimension wanted"):format(name, p:type()))
  end
  rawset(module, name, nil)
  return p
end

-- From now on the module computes `name` before it does what it did.
local function compute(module, name, value)
  local forward = module.forward
  rawset(module, "forward", function(self, ...)
    rawset(self, name, value(self))
    return forward(self, ...)
  end)
  return module
end

-- All dimensions but one, and the length along these.
local function length(v, dim)
  local dims = {}
  for d = 1, v:dim() do
    if d ~= dim then dims[#dims + 1] = d end
  end
  if #dims == 0 then return v:abs() end
  return v:norm { dim = dims, keepdim = true }
end

local function place(who, v, dim)
  if dim == nil then return nil end
  local at = dim < 0 and dim + v:dim() + 1 or dim
  if math.type(at) == "integer" and at >= 1 and at <= v:dim() then return at end
  argument.refuse(who, "dim %s of %s", options.show(dim), v:type())
end

--- Compute a weight from its direction and its length (Salimans & Kingma,
--- arXiv:1602.07868): weight = weight_g weight_v / |weight_v|, each slice along `dim` by
--- itself.
---
---     local layer = nn.weight_norm(nn.Linear(20, 40))   -- weight_g [40,1], weight_v [40,20]
---
--- Raises: a module without such a weight.
---@param module mrt.nn.Module
---@param name? string  default "weight"
---@param dim? integer  default 1
---@return mrt.nn.Module module
function reparametrize.weight_norm(module, name, dim)
  local o = argument.read("weight_norm", { "name", "dim" }, name, dim)
  name = o.name or "weight"
  local v = take("weight_norm", module, name)
  local at = place("weight_norm", v, o.dim or 1)
  module[name .. "_g"] = mrt.parameter(length(v, at))
  module[name .. "_v"] = v
  return compute(module, name, function(self)
    local own = self[name .. "_v"]
    return own * (self[name .. "_g"] / length(own, at))
  end)
end

local function unit(x, eps) return x / x:norm():maximum(eps) end

local spectral = { n_power_iterations = 1, eps = 1e-12, name = "weight", dim = 1 }
local spectral_names = { "name", "n_power_iterations", "eps", "dim" }

--- Divide a weight by its largest singular value (Miyato et al., arXiv:1802.05957), as a
--- matrix `[dim, all else]`, estimated by power iterations while training: from the vectors
--- weight_u and weight_v, which are state.
---
---     local layer = nn.spectral_norm(nn.Linear(4, 3))
---
--- Raises: a module without such a weight.
---@param module mrt.nn.Module
---@param name? string|{name: string?, n_power_iterations: integer?, eps: number?, dim: integer?}
---@param ... any  n_power_iterations (1), eps (1e-12), dim (1)
---@return mrt.nn.Module module
function reparametrize.spectral_norm(module, name, ...)
  local who <const> = "spectral_norm"
  local o = options.read(who, argument.read(who, spectral_names, name, ...), spectral)
  options.size(who, "n_power_iterations", o.n_power_iterations)
  local w = take(who, module, o.name)
  local at = place(who, w, o.dim)
  local function matrix(x)
    if at > 1 then x = x:transpose(1, at) end
    return x:reshape(x:size(1), -1)
  end
  local like = matrix(w)
  module[o.name .. "_orig"] = w
  local function state(suffix, n)
    local start = unit(mrt.randn({ n }, { dtype = w:get_dtype() }), o.eps)
    module:register_buffer(o.name .. suffix, mrt.variable(start))
  end
  state("_u", like:size(1))
  state("_v", like:size(2))
  return compute(module, o.name, function(self)
    local own = self[o.name .. "_orig"]
    local u, v, rows = self[o.name .. "_u"], self[o.name .. "_v"], matrix(own)
    local fixed, next_u, next_v = rows:detach(), u, v
    for _ = 1, self.training and o.n_power_iterations or 0 do
      next_v = unit(fixed:t():matmul(next_u), o.eps)
      next_u = unit(fixed:matmul(next_v), o.eps)
    end
    if self.training then
      trace.later(function(when)
        u:assign(next_u, { when = when })
        v:assign(next_v, { when = when })
      end)
    end
    return own / (next_u:detach() * rows:matmul(next_v:detach())):sum()
  end)
end

return reparametrize
