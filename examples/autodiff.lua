--- autodiff.lua -- reverse-mode differentiation by hand and by mrt
---
--- Walks through y = ln(x1) + x1 x2 - sin(x2) at (2, 5), the example of
--- Baydin, Pearlmutter, Radul & Siskind, "Automatic differentiation in machine
--- learning: a survey", JMLR 18 (2018).
---
---     mrt examples/autodiff.lua
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local function heading(text) print("\n" .. text .. "\n" .. ("-"):rep(#text)) end

-- Negative zero is no news.
local function show(t) return ("%8.4f"):format(t:item() + 0.0) end

-- ---- forward --------------------------------------------------------------

local x1, x2 = mrt.tensor(2.0, "f64"), mrt.tensor(5.0, "f64")
local v3, v4, v5 = x1:log(), x1 * x2, x2:sin()
local v6 = v3 + v4
local y = v6 - v5

-- Of each v its formula, and which v it reads.
local v = { x1, x2, v3, v4, v5, v6, y }
local formula = { "x1", "x2", "ln v1", "v1 * v2", "sin v2", "v3 + v4",
  "v6 - v5" }
local reads = { {}, {}, { 1 }, { 1, 2 }, { 2 }, { 3, 4 }, { 6, 5 } }

heading "Forward: y = ln(x1) + x1 x2 - sin(x2) at (2, 5)"
for i = 1, 7 do print(("v%d = %-8s %s"):format(i, formula[i], show(v[i]))) end
print("y  = v7       " .. show(y))

-- ---- adjoints -------------------------------------------------------------

heading "Backward: the adjoint of v is dy/dv, summed over what reads v"

local function adjoint(x) return mrt.grad(y, x) end

-- The adjoint of x along one edge: that of its reader times d reader / dx.
local function partial(reader, x) return adjoint(reader) * mrt.grad(reader, x) end

for i = 7, 1, -1 do
  local terms = {}
  for j, list in ipairs(reads) do
    for _, read in ipairs(list) do
      if read == i then
        terms[#terms + 1] = ("%s by v%d"):format(show(partial(v[j], v[i])), j)
      end
    end
  end
  local how = #terms > 0 and table.concat(terms, "  + ") or "       1 by itself"
  print(("adjoint of v%d = %s   = %s"):format(i, show(adjoint(v[i])), how))
end

local g1, g2 = table.unpack(mrt.grad(y, { x1, x2 }))
print(("\ndy/dx1 = 1/x1 + x2    = %.3f"):format(g1:item()))
print(("dy/dx2 = x1 - cos(x2) = %.3f"):format(g2:item()))

-- ---- the extended graph ---------------------------------------------------

heading "The graph, extended by the nodes of its gradient"

local compiled = mrt.compile(function(a, b)
  local z = a:log() + a * b - b:sin()
  local dz = mrt.grad(z, { a, b })
  return z, dz[1], dz[2]
end, { fuse = false })
print(compiled:plan(x1, x2):graph())

print [[
Why extend the graph and not walk it back with numbers?  A walk leaves numbers
behind: the gradient is known, but not how it came about.  Nodes can be treated
like any others.  They are differentiated again (the Hessian below), simplified
and fused together with the forward ones, and planned: before anything runs it
is known which forward values the backward half reads, hence how long each must
be kept, and how many bytes that takes.  A value that is cheaper to compute
twice than to keep is one more rewrite of the same graph.]]

-- ---- second derivatives ---------------------------------------------------

heading "The Hessian: gradients of the gradients"
for i, g in ipairs { g1, g2 } do
  local h = mrt.grad(g, { x1, x2 })
  print(("d(dy/dx%d)   %s %s"):format(i, show(h[1]), show(h[2])))
end
print "exactly:      -1/x1^2 = -0.25, 1;  1, sin(x2) = -0.9589"

-- ---- another function -----------------------------------------------------

heading "z = exp(a b + 3) at (0.5, -2)"
local a, b = mrt.tensor(0.5, "f64"), mrt.tensor(-2.0, "f64")
local z = (a * b + 3):exp()
local dz = mrt.grad(z, { a, b })
print("z          " .. show(z))
print("dz/da = bz " .. show(dz[1]))
print("dz/db = az " .. show(dz[2]))
