--- product.lua -- methods of tensors that multiply them, and distances
---
--- Compositions of matmul and of products element by element; what takes several tensors
--- is a function of the module: mrt.einsum, mrt.chain_matmul.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"
local show = require "mrt.util.options".show

local op = core.op
local read, refuse, place = argument.read, argument.refuse, dims.place
local infos = core.dtypes()
---@class mrt.Tensor
local Tensor = core.methods

---@class mrt.products
local products = { einsum = require "mrt.tensor.einsum" }

-- Tensors of these ranks, or a message.
local function want_ranks(who, tensors, ranks, words)
  for i, x in ipairs(tensors) do
    argument.tensor(who, ("operand %d"):format(i), x)
    if x:dim() ~= ranks[i] then
      core.fail("shape", who, ("operand %d is %s, %s wanted"):format(i, x:type(), words))
    end
  end
end

-- ---- matrices and vectors --------------------------------------------------

local plain = {
  mm = { "mat2", { 2, 2 }, "two matrices" },
  mv = { "vec", { 2, 1 }, "a matrix and a vector" },
  bmm = { "mat2", { 3, 3 }, "two batches of matrices" },
  vdot = { "other", { 1, 1 }, "two vectors" },
}
for name, rule in pairs(plain) do
  Tensor[name] = function(x, y, ...)
    if not core.is_tensor(y) or ... then y = read(name, { rule[1] }, y, ...)[rule[1]] end
    argument.tensor(name, rule[1], y)
    if x:dim() ~= rule[2][1] or y:dim() ~= rule[2][2] then
      want_ranks(name, { x, y }, rule[2], rule[3])
    end
    if name == "bmm" and x:size(1) ~= y:size(1) then
      core.fail("shape", name, ("%s @ %s, as many matrices wanted"):format(x:type(), y:type()))
    end
    if name == "vdot" then return x:dot(y) end
    return name == "mv" and op.linear(y, x) or op.matmul(x, y)
  end
end

-- beta x + alpha product; x does not matter where beta is 0.
local function added(x, product, o)
  local alpha, beta = o.alpha or 1, o.beta or 1
  if alpha ~= 1 then product = op.mul(product, alpha) end
  if beta == 0 then return dims.expand(product, product:get_shape()) end
  return op.add(beta ~= 1 and op.mul(x, beta) or x, product)
end

local sums = {
  addmm = { "mat1", "mat2", Tensor.mm },
  addmv = { "mat", "vec", Tensor.mv },
  baddbmm = { "batch1", "batch2", Tensor.bmm },
  addbmm = { "batch1", "batch2", function(a, b)
    want_ranks("addbmm", { a, b }, { 3, 3 }, "two batches of matrices")
    local B, M, K = a:size(1), a:size(2), a:size(3)
    return op.matmul(op.reshape(op.transpose(a, 1, 2), { M, B * K }),
      op.reshape(b, { B * b:size(2), b:size(3) }))
  end },
  addr = { "vec1", "vec2", function(a, b) return a:outer(b) end },
}
for name, rule in pairs(sums) do
  local first, second, product = rule[1], rule[2], rule[3]
  Tensor[name] = function(x, ...)
    local o = read(name, { first, second, "beta", "alpha" }, ...)
    argument.tensor(name, first, o[first])
    argument.tensor(name, second, o[second])
    return added(x, product(o[first], o[second]), o)
  end
end

--- All products of an element of x and one of y: two vectors -> a matrix.
---
---     mrt.tensor{1, 2}:outer(mrt.tensor{3, 4})  --> [[3 4] [6 8]]
---
--- Shapes: `[m]`, `[n]` -> `[m, n]`.
--- Raises: what is no vector.
---@param vec2 mrt.Tensor
---@return mrt.Tensor
function Tensor.outer(x, vec2, ...)
  local y = vec2
  if not core.is_tensor(y) or ... then y = read("outer", { "vec2" }, vec2, ...).vec2 end
  if not core.is_tensor(y) or x:dim() ~= 1 or y:dim() ~= 1 then
    want_ranks("outer", { x, y }, { 1, 1 }, "two vectors")
  end
  return op.mul(op.reshape(x, { x:numel(), 1 }), y)
end

--- Sums of products over the last dimension of both: [..., K], [others, K] -> [..., others].
---
---     mrt.tensor{1.0, 2.0}:inner(mrt.tensor{3.0, 4.0})  --> 11
---
--- Raises: last dimensions that differ.
---@param other mrt.Tensor
---@return mrt.Tensor
function Tensor.inner(x, other, ...)
  local y = argument.tensor("inner", "other", read("inner", { "other" }, other, ...).other)
  if x:dim() == 0 or y:dim() == 0 then return op.mul(x, y) end
  return x:tensordot(y, { { -1 }, { -1 } })
end

-- ---- several dimensions ----------------------------------------------------

-- Dimensions that are summed: the last of x and the first of y, or two lists.
local function summed_dims(who, x, y, given)
  if type(given) == "table" then
    if type(given[1]) ~= "table" or type(given[2]) ~= "table" then
      refuse(who, "dims: a number, or a list for each of the two, wanted")
    end
    return dims.places(who, x, given[1]), dims.places(who, y, given[2])
  end
  local n, a, b = dims.integer(who, "dims", given, 0), {}, {}
  if n > x:dim() or n > y:dim() then
    refuse(who, "%d dims of %s and %s", n, x:type(), y:type())
  end
  for i = 1, n do a[i], b[i] = x:dim() - n + i, i end
  return a, b
end

-- The dimensions of x that are not listed, and their sizes.
local function others(x, list)
  local listed, rest, sizes = {}, {}, {}
  for _, d in ipairs(list) do listed[d] = true end
  for d = 1, x:dim() do
    if not listed[d] then
      rest[#rest + 1] = d
      sizes[#sizes + 1] = x:size(d)
    end
  end
  return rest, sizes
end

--- Sums of products over several dimensions.
---
---     mrt.ones(2, 3):tensordot(mrt.ones(3, 4), 1):type()  --> f32[2,4]
---
--- Raises: sizes that do not fit.
---@param other mrt.Tensor
---@param given? integer|integer[][]  so many last ones of x and first ones of the other
---  (default 2), or a list for each
---@return mrt.Tensor  the other dimensions of x, then those of the other
function Tensor.tensordot(x, other, given, ...)
  local who <const> = "tensordot"
  local o = read(who, { "other", "dims" }, other, given, ...)
  local y = argument.tensor(who, "other", o.other)
  local a, b = summed_dims(who, x, y, o.dims or 2)
  if #a ~= #b then refuse(who, "%d dims of one and %d of the other", #a, #b) end
  local K = 1
  for i, d in ipairs(a) do
    if x:size(d) ~= y:size(b[i]) then
      core.fail("shape", who, ("dim %d of %s with dim %d of %s"):format(d, x:type(), b[i],
        y:type()))
    end
    K = K * x:size(d)
  end
  local rows, left = others(x, a)
  local columns, right = others(y, b)
  local function as_matrix(t, first, second, shape)
    local order = table.move(second, 1, #second, #first + 1, { table.unpack(first) })
    return op.reshape(#order > 1 and op.permute(t, order) or t, shape)
  end
  local z = op.matmul(as_matrix(x, rows, a, { dims.count(left), K }),
    as_matrix(y, b, columns, { K, dims.count(right) }))
  return op.reshape(z, table.move(right, 1, #right, #left + 1, left))
end

--- Blocks of y, one for each element of x, times it.
---
---     mrt.tensor{{1, 2}}:kron(mrt.tensor{{1, 1}})  --> [[1 1 2 2]]
---
--- Shapes: `[a,b]`, `[c,d]` -> `[a c, b d]`; what lacks dimensions has leading ones of 1.
--- Raises: more than four dimensions.
---@param other mrt.Tensor
---@return mrt.Tensor
function Tensor.kron(x, other, ...)
  local y = other
  if not core.is_tensor(y) or ... then
    y = argument.tensor("kron", "other", read("kron", { "other" }, other, ...).other)
  end
  local a, b = x:get_shape(), y:get_shape()
  local rank = math.max(#a, #b)
  if rank > 4 then refuse("kron", "%d dimensions, at most 4 wanted", rank) end
  local one, two, shape = {}, {}, {}
  for d = 1, rank do
    local m, n = a[d - rank + #a] or 1, b[d - rank + #b] or 1
    if m ~= 1 and n ~= 1 or #one == 0 then -- else one dimension is enough
      one[#one + 1], two[#two + 1] = m, 1
      one[#one + 1], two[#two + 1] = 1, n
    else
      one[#one + 1], two[#two + 1] = m, n
    end
    shape[d] = m * n
  end
  local z = op.mul(op.reshape(x, one), op.reshape(y, two))
  return #one == rank and z or op.reshape(z, shape)
end

-- Position i of dimension d, kept with size 1.
local function component(x, d, i) return op.slice(x, d, i, i) end

-- Of integers, of one shape.
local function cross_by_parts(x, y, d)
  local parts = {}
  for i = 1, 3 do
    local j, k = i % 3 + 1, (i + 1) % 3 + 1
    parts[i] = op.sub(op.mul(component(x, d, j), component(y, d, k)),
      op.mul(component(x, d, k), component(y, d, j)))
  end
  return op.cat(parts, d)
end

local function first_of_three(shape)
  for d, n in ipairs(shape) do
    if n == 3 then return d end
  end
end

--- Cross product of vectors of three along a dimension; others broadcast.
---
---     mrt.tensor{1.0, 0.0, 0.0}:cross(mrt.tensor{0.0, 1.0, 0.0})  --> [0.0 0.0 1.0]
---
--- Raises: a dimension that is not 3.
---@param other mrt.Tensor
---@param dim? integer  default: the first of size 3
---@return mrt.Tensor
function Tensor.cross(x, other, dim, ...)
  if not core.is_tensor(other) or type(dim) == "table" or ... then
    local o = read("cross", { "other", "dim" }, other, dim, ...)
    other, dim = argument.tensor("cross", "other", o.other), o.dim
  end
  local shape, y = x:get_shape(), other
  if not dims.same(shape, y:get_shape()) then
    shape = dims.broadcast("cross", { shape, y:get_shape() })
    x, y = dims.expand(x, shape), dims.expand(y, shape)
  end
  local d = dim ~= nil and place("cross", x, dim) or first_of_three(shape)
  if shape[d] ~= 3 then
    refuse("cross", "%s and %s, a dimension of size 3 wanted", x:type(), y:type())
  end
  local dtype = x:get_dtype()
  local floats = infos[dtype].floating and y:get_dtype() == dtype
  return floats and op.cross(x, y, d) or cross_by_parts(x, y, d)
end

--- Sum of the diagonal of a matrix.
---
---     mrt.tensor{{1, 2}, {3, 4}}:trace()  --> 5
---
--- Shapes: `[m, n]` -> scalar.
--- Raises: what is no matrix.
---@return mrt.Tensor
function Tensor.trace(x)
  if x:dim() ~= 2 then core.fail("shape", "trace", x:type() .. ", a matrix wanted") end
  return op.sum(op.diagonal(x))
end

--- A matrix, or each of several, times itself n times; 0 gives the identity, less
--- than 0 a power of the inverse.  Raises (data): that of a singular matrix.
---
---     mrt.tensor{{1.0, 1.0}, {0.0, 1.0}}:matrix_power(3)  --> [[1.0 3.0] [0.0 1.0]]
---
--- Shapes: `[..., n, n]`.
---@param n integer
---@return mrt.Tensor
function Tensor.matrix_power(x, n, ...)
  local who <const> = "matrix_power"
  local power = dims.integer(who, "n", read(who, { "n" }, n, ...).n)
  local rank = x:dim()
  if rank < 2 or x:size(-1) ~= x:size(-2) then
    core.fail("shape", who, x:type() .. ", square matrices wanted")
  end
  if power < -math.maxinteger then refuse(who, "n: %d, whose opposite overflows", power) end
  if power < 0 then x, power = op.inverse(x), -power end
  if power == 0 then
    local i = op.arange { stop = x:size(-1), dtype = "i64" }
    local identity = op.cast(op.eq(op.reshape(i, { x:size(-1), 1 }), i), x:get_dtype())
    return dims.expand(identity, x:get_shape())
  end
  local y
  while power > 0 do
    if power % 2 == 1 then y = y and op.matmul(y, x) or x end
    power = power // 2
    if power > 0 then x = op.matmul(x, x) end
  end
  return y
end

-- The cheapest order of a chain of matrices of sizes[i] x sizes[i + 1]: where [i, j] is
-- cut.  Cormen et al., Introduction to Algorithms, 15.2.
local function cuts(sizes)
  local n, cost, cut = #sizes - 1, {}, {}
  for i = 1, n do cost[i], cut[i] = { [i] = 0.0 }, {} end
  for length = 2, n do
    for i = 1, n - length + 1 do
      local j = i + length - 1
      cost[i][j] = math.huge
      for k = i, j - 1 do
        local c = cost[i][k] + cost[k + 1][j] + 1.0 * sizes[i] * sizes[k + 1] * sizes[j + 1]
        if c < cost[i][j] then cost[i][j], cut[i][j] = c, k end
      end
    end
  end
  return cut
end

-- Matrices of a chain, vectors at its ends, and how rows and columns follow each other.
local function read_chain(who, list)
  local sizes, n = {}, #list
  if n == 0 then refuse(who, "no matrices, one at least wanted") end
  for i, x in ipairs(list) do
    argument.tensor(who, ("matrix %d"):format(i), x)
    local rank = x:dim()
    if rank ~= 2 and (rank ~= 1 or i > 1 and i < n) then
      core.fail("shape", who, ("matrix %d is %s"):format(i, x:type()))
    end
    if i == 1 then sizes[1] = rank == 2 and x:size(1) or 1 end
    sizes[i + 1] = x:size(rank)
  end
  if list[n]:dim() == 1 then sizes[n + 1] = 1 end
  return sizes
end

--- Multiply matrices in the cheapest order; the first and the last may be vectors.
---
---     mrt.chain_matmul(mrt.ones(2, 3), mrt.ones(3, 4), mrt.ones(4, 1)):type()  --> f32[2,1]
---
--- Shapes: `[a,b]`, `[b,c]`, ... -> `[a,z]`.
--- Raises: sizes that do not fit.
---@param ... mrt.Tensor|mrt.Tensor[]
---@return mrt.Tensor
function products.chain_matmul(...)
  local list = dims.tensors("chain_matmul", ...)
  local cut = cuts(read_chain("chain_matmul", list))
  local function multiply(i, j)
    if i == j then return list[i] end
    return multiply(i, cut[i][j]):matmul(multiply(cut[i][j] + 1, j))
  end
  return multiply(1, #list)
end
products.multi_dot = products.chain_matmul

-- ---- distances -------------------------------------------------------------

--- The norm of the difference of two tensors, over all elements.
---
---     mrt.tensor{0.0, 0.0}:dist(mrt.tensor{3.0, 4.0})  --> 5
---
--- Shapes: x and y broadcast -> scalar.
--- Raises: shapes that do not broadcast.
---@param other mrt.Tensor
---@param p? number  default 2
---@return mrt.Tensor scalar
function Tensor.dist(x, other, p, ...)
  local o = read("dist", { "other", "p" }, other, p, ...)
  return op.sub(x, argument.tensor("dist", "other", o.other)):norm(o.p or 2)
end

--- Slices along a dimension, shrunk where their norm is larger than `maxnorm`.
---
---     mrt.tensor{{3.0, 4.0}}:renorm(2, 1, 1)  --> [[0.6 0.8]]
---
--- Raises: a dimension that x does not have.
---@param p number
---@param dim integer
---@param maxnorm number
---@return mrt.Tensor
function Tensor.renorm(x, p, dim, maxnorm, ...)
  local o = read("renorm", { "p", "dim", "maxnorm" }, p, dim, maxnorm, ...)
  local at, over = place("renorm", x, o.dim), {}
  if type(o.p) ~= "number" or not (o.p > 0) then
    refuse("renorm", "p %s, a positive number wanted", show(o.p))
  elseif type(o.maxnorm) ~= "number" or o.maxnorm < 0 then
    refuse("renorm", "maxnorm %s, a number, 0 or more, wanted", show(o.maxnorm))
  end
  for d = 1, x:dim() do if d ~= at then over[#over + 1] = d end end
  if #over == 0 then refuse("renorm", "%s, at least 2 dimensions wanted", x:type()) end
  local size = x:norm(o.p, over, true)
  local scale = op.where(op.gt(size, o.maxnorm), op.div(o.maxnorm, op.add(size, 1e-7)), 1)
  return op.mul(x, scale)
end

-- [..., P, M] and [..., R, M] as three dimensions each, and the shape of what comes out.
local function as_rows(who, x, y)
  if x:dim() < 2 or y:dim() < 2 or x:size(-1) ~= y:size(-1) then
    core.fail("shape", who, ("%s and %s, [..., P, M] and [..., R, M] wanted"):format(x:type(),
      y:type()))
  end
  local one, two = x:get_shape(), y:get_shape()
  local P, R, M = one[#one - 1], two[#two - 1], one[#one]
  local batch = dims.broadcast(who, { table.move(one, 1, #one - 2, 1, {}),
    table.move(two, 1, #two - 2, 1, {}) })
  local function flat(t, n)
    local shape = table.move({ n, M }, 1, 2, #batch + 1, { table.unpack(batch) })
    return op.reshape(dims.expand(t, shape), { dims.count(batch), n, M })
  end
  local out = table.move({ P, R }, 1, 2, #batch + 1, { table.unpack(batch) })
  return flat(x, P), flat(y, R), out
end

-- Euclidean distances by a product of matrices, for long rows: |x|^2 + |y|^2 - 2 x y.
-- The gradient is of the distance, not of that formula, whose slope at 0 is infinite.
local function euclidean(x, y)
  local function squares(t) return op.sum(op.mul(t, t), { dim = { 3 }, keepdim = true }) end
  local yt = op.transpose(y, 2, 3)
  local d = op.sub(op.add(squares(x), op.transpose(squares(y), 2, 3)),
    op.mul(op.matmul(x, yt), 2))
  d = op.sqrt(op.maximum(d, 0))
  return core.custom(d, { x, y }, function(g)
    local zero = op.eq(d, 0)
    local w = op.where(zero, 0, op.div(g, op.where(zero, 1, d)))
    local wt = op.transpose(w, 2, 3)
    return { op.sub(op.mul(x, op.sum(w, { dim = { 3 }, keepdim = true })), op.matmul(w, y)),
      op.sub(op.mul(y, op.sum(wt, { dim = { 3 }, keepdim = true })), op.matmul(wt, x)) }
  end)
end

local LONG <const> = 64 -- rows from which on the product is quicker

--- Distances between rows: [..., P, M], [..., R, M] -> [..., P, R].
---
---     mrt.tensor{{0.0, 0.0}}:cdist(mrt.tensor{{3.0, 4.0}})  --> [[5.0]]
---
--- Raises: rows of other lengths.
---@param x2 mrt.Tensor
---@param p? number  0 or more, or math.huge; default 2
---@return mrt.Tensor
function Tensor.cdist(x, x2, p, ...)
  local o = read("cdist", { "x2", "p" }, x2, p, ...)
  local y = argument.tensor("cdist", "x2", o.x2)
  if not infos[x:get_dtype()].floating then
    core.fail("dtype", "cdist", x:type() .. ", floats wanted")
  end
  local a, b, shape = as_rows("cdist", x, y)
  local long = (o.p or 2) == 2 and a:size(3) >= LONG and a:size(2) > 25 and b:size(2) > 25
  local d = long and euclidean(a, b) or op.cdist(a, b, { p = o.p or 2 })
  return op.reshape(d, shape)
end

--- Distances between the rows of a matrix, each pair once, row by row of the upper triangle.
---
---     mrt.tensor{{0.0, 0.0}, {3.0, 4.0}}:pdist()  --> [5.0]
---
--- Raises: what is no matrix.
---@param p? number
---@return mrt.Tensor  `[N (N - 1) / 2]`
function Tensor.pdist(x, p, ...)
  local o = read("pdist", { "p" }, p, ...)
  if x:dim() ~= 2 then core.fail("shape", "pdist", x:type() .. ", a matrix wanted") end
  local n = x:size(1)
  local at = require "mrt.tensor.create".triu_indices(n, n, 1)
  local ids = op.add(op.mul(op.slice(at, 1, 1, 1), n), op.slice(at, 1, 2, 2))
  return op.gather(op.reshape(x:cdist(x, o.p), { n * n }), op.reshape(ids, -1), { dim = 1 })
end

return products
