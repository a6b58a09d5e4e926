--- product.lua -- products of vectors, matrices and tensors, and distances
---
--- SPDX-License-Identifier: MIT

local reals = { "f32", "f64" }

local function row(name, args, draw, extra)
  local out = { torch = "torch." .. name, ours = "Tensor." .. name, args = args, draw = draw,
    grad = true, dtypes = reals, tolerance = 1e-4 }
  for k, v in pairs(extra or {}) do out[k] = v end
  return out
end

local function side(n) return math.floor((n / 2) ^ 0.5) end
local input = { "input", "tensor" }

local function added(name, first, second, shapes)
  return row(name, { input, { first, "tensor" }, { second, "tensor" },
    { "beta", "number", 1, keyword = true }, { "alpha", "number", 1, keyword = true } },
    function(r)
      local out, a, b = shapes(r(1, 4), r(0, 5), r(1, 5), r(1, 5))
      return { input = { dims = r.bool() and out or { out[#out] } }, [first] = { dims = a },
        [second] = { dims = b }, beta = r.pick { 1, 0.5 }, alpha = r.pick { 1, 2 } }
    end)
end

local equations = { { "ij,jk->ik", { 1, 2 }, { 2, 3 } }, { "ij,jk", { 1, 2 }, { 2, 3 } },
  { "bij,bjk->bik", { 4, 1, 2 }, { 4, 2, 3 } }, { "i,j->ij", { 1 }, { 2 } },
  { "ij,ij->", { 1, 2 }, { 1, 2 } }, { "...ij,...jk->...ik", { 4, 5, 1, 2 }, { 5, 2, 3 } },
  { "iij,j->i", { 1, 1, 2 }, { 2 } }, { "ij,j->ji", { 1, 2 }, { 2 } },
  { "ijk,lkj->il", { 1, 2, 3 }, { 4, 3, 2 } }, { "abc,bd->dca", { 1, 2, 3 }, { 2, 4 } },
  { "ij,jk,kl->il", { 1, 2 }, { 2, 3 }, { 3, 4 } }, { "i,i,i->i", { 1 }, { 1 }, { 1 } },
  { "ii->i", { 1, 1 } }, { "ii", { 1, 1 } }, { "ijk->kj", { 1, 2, 3 } },
  { "bhid,bhjd->bhij", { 4, 5, 1, 2 }, { 4, 5, 3, 2 } },
  { "ij,jk,kl,lm->im", { 1, 2 }, { 2, 3 }, { 3, 4 }, { 4, 5 } } }

return {
  row("mm", { input, { "mat2", "tensor" } }, function(r)
    local m, k, n = r(0, 6), r(0, 6), r(0, 6)
    return { input = { dims = { m, k } }, mat2 = { dims = { k, n } } }
  end, { size = function(n)
    local k = side(n)
    return n < 1e6 and { input = { dims = { k, k } }, mat2 = { dims = { k, k } } } or nil
  end }),
  row("bmm", { input, { "mat2", "tensor" } }, function(r)
    local b, m, k, n = r(0, 3), r(1, 6), r(0, 6), r(1, 6)
    return { input = { dims = { b, m, k } }, mat2 = { dims = { b, k, n } } }
  end, { size = function(n)
    return { input = { dims = { n // 512, 16, 16 } }, mat2 = { dims = { n // 512, 16, 16 } } }
  end }),
  row("mv", { input, { "vec", "tensor" } }, function(r)
    local m, k = r(0, 6), r(0, 6)
    return { input = { dims = { m, k } }, vec = { dims = { k } } }
  end, { size = function(n)
    local k = math.floor(n ^ 0.5)
    return { input = { dims = { k, k } }, vec = { dims = { k } } }
  end }),
  row("vdot", { input, { "other", "tensor" } }, function(r)
    local n = r(0, 9)
    return { input = { dims = { n } }, other = { dims = { n } } }
  end),
  row("outer", { input, { "vec2", "tensor" } }, function(r)
    return { input = { dims = { r(0, 6) } }, vec2 = { dims = { r(0, 6) } } }
  end, { dtypes = { "f32", "f64", "i64" }, size = function(n)
    local k = math.floor(n ^ 0.5)
    return { input = { dims = { k } }, vec2 = { dims = { k } } }
  end }),
  row("inner", { input, { "other", "tensor" } }, function(r)
    local k = r(1, 5)
    return { input = { dims = { r(1, 4), k } }, other = { dims = { r(1, 3), r(1, 3), k } } }
  end),
  added("addmm", "mat1", "mat2", function(_, m, k, n) return { m, n }, { m, k }, { k, n } end),
  added("addmv", "mat", "vec", function(_, m, k) return { m }, { m, k }, { k } end),
  added("baddbmm", "batch1", "batch2", function(b, m, k, n)
    return { b, m, n }, { b, m, k }, { b, k, n }
  end),
  added("addbmm", "batch1", "batch2", function(b, m, k, n)
    return { m, n }, { b, m, k }, { b, k, n }
  end),
  added("addr", "vec1", "vec2", function(_, m, _, n) return { m, n }, { m }, { n } end),
  row("einsum", { { "equation", "string" }, { "tensors", "tensors" } }, function(r)
    local e, sizes, list = r.pick(equations), {}, {}
    for k = 1, 5 do sizes[k] = r(1, 5) end
    for i = 2, #e do
      local dims = {}
      for d, k in ipairs(e[i]) do dims[d] = sizes[k] end
      list[i - 1] = { dims = dims }
    end
    return { equation = e[1], tensors = list }
  end, { ours = "mrt.einsum", expression = function(v)
    return ("torch.einsum('%s', %s)"):format(v.equation,
      ({ "a", "a, b", "a, b, c", "a, b, c, d" })[#v.tensors])
  end, size = function(n)
    return { equation = "bij,bjk->bik", tensors = { { dims = { n // 512, 16, 16 } },
      { dims = { n // 512, 16, 16 } } } }
  end }),
  row("tensordot", { input, { "other", "tensor" }, { "dims", "int", 2 } }, function(r)
    local a, b, c, d = r(1, 4), r(1, 4), r(1, 4), r(1, 4)
    return { input = { dims = { a, b, c } }, other = { dims = { b, c, d } }, dims = 2 }
  end),
  row("kron", { input, { "other", "tensor" } }, function(r)
    return { input = { dims = r.dims(1, 3) }, other = { dims = r.dims(1, 3) } }
  end, { dtypes = { "f32", "f64", "i64" }, size = function(n)
    return { input = { dims = { n // 100, 1 } }, other = { dims = { 10, 10 } } }
  end }),
  row("cross", { input, { "other", "tensor" }, { "dim", "dim" } }, function(r)
    local dims = r.bool() and { 3, r(1, 4) } or { r(1, 2), 3 }
    return { input = { dims = dims }, other = { dims = dims }, dim = dims[1] == 3 and 1 or 2 }
  end, { size = function(n)
    return { input = { dims = { n // 3, 3 } }, other = { dims = { n // 3, 3 } }, dim = 2 }
  end }),
  row("trace", { input }, function(r)
    local m = r(0, 5)
    return { input = { dims = { m, m + r(0, 3) } } }
  end, { dtypes = { "f32", "f64", "i64" },
    differs = "of high matrices the gradient is right, PyTorch 2.6 has ones below it" }),
  row("matrix_power", { input, { "n", "int" } }, function(r)
    local k = r(1, 5)
    return { input = { dims = { r(1, 3), k, k } }, n = r(0, 6) }
  end),
  row("chain_matmul", { { "matrices", "tensors" } }, function(r)
    local a, b, c, d = r(1, 6), r(1, 6), r(1, 6), r(1, 6)
    return { matrices = { { dims = { a, b } }, { dims = { b, c } }, { dims = { c, d } } } }
  end, { ours = "mrt.chain_matmul",
    expression = function() return "torch.linalg.multi_dot([a, b, c])" end }),
  row("linalg.multi_dot", { { "tensors", "tensors" } }, function(r)
    local a, b, c = r(1, 6), r(1, 6), r(1, 6)
    return { tensors = { { dims = { a } }, { dims = { a, b } }, { dims = { b, c } } } }
  end, { ours = "mrt.multi_dot" }),
  row("cdist", { { "x1", "tensor" }, { "x2", "tensor" }, { "p", "number", 2 } }, function(r)
    local m, P = r(1, 5), r.pick { r(1, 5), 30 }
    if r(1, 6) == 1 then P, m = 30, 70 end
    local R = P == 30 and 30 or r(1, 5)
    local one, two = { P, m }, { R, m }
    if r.bool() then one, two = { 2, P, m }, { 2, R, m } end
    return { x1 = { dims = one }, x2 = { dims = two }, p = r.pick { 1, 2, 2, 3, math.huge } }
  end, { tolerance = 1e-3, size = function(n)
    local k = math.floor(n ^ 0.5)
    return { x1 = { dims = { k, 16 } }, x2 = { dims = { k, 16 } }, p = 1 }
  end }),
  row("pdist", { input, { "p", "number", 2 } }, function(r)
    return { input = { dims = { r(2, 6), r(1, 4) } }, p = r.pick { 1, 2, 3 } }
  end, { torch = "torch.nn.functional.pdist", tolerance = 1e-3 }),
  row("dist", { input, { "other", "tensor" }, { "p", "number", 2 } }, function(r)
    local dims = { r(1, 5), r(1, 5) }
    return { input = { dims = dims }, other = { dims = dims }, p = r.pick { 1, 2, 3 } }
  end, { size = function(n) return { input = { dims = { n } }, other = { dims = { n } } } end }),
  row("renorm", { input, { "p", "number" }, { "dim", "dim" }, { "maxnorm", "number" } },
    function(r)
      local dims = { r(1, 5), r(1, 5), r(1, 3) }
      return { input = { dims = dims }, p = r.pick { 1, 2 }, dim = r.dim(dims), maxnorm = 1.5 }
    end, { size = function(n)
      return { input = { dims = { n // 100, 100 } }, p = 2, dim = 1, maxnorm = 5 }
    end }),
}
