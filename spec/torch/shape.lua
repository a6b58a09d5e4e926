--- shape.lua -- other shapes and orders of elements, splits and joins
---
--- SPDX-License-Identifier: MIT

local all = { "f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool" }
local input = { "input", "tensor" }

local function count(dims)
  local n = 1
  for _, size in ipairs(dims) do n = n * size end
  return n
end

local function at(dims, d) return dims[d < 0 and d + #dims + 1 or d] end

-- A row with gradients in all dtypes.
local function row(name, args, draw, extra)
  local out = { torch = "torch." .. name, ours = "Tensor." .. name:match "[^.]+$", args = args,
    draw = draw, grad = true, dtypes = all }
  for k, v in pairs(extra or {}) do out[k] = v end
  return out
end

-- Only a tensor, of these ranks.
local function alone(name, low, high, extra)
  return row(name, { input }, function(r) return { input = { dims = r.dims(low, high) } } end,
    extra)
end

local function square(n)
  local side = math.floor(n ^ 0.5)
  return { input = { dims = { side, side } } }
end

local function two_dims(name, first, second)
  return row(name, { input, { first, "dim" }, { second, "dim" } }, function(r)
    local dims = r.dims(1, 4)
    return { input = { dims = dims }, [first] = r.dim(dims), [second] = r.dim(dims) }
  end)
end

-- Several tensors of rank `low` to `high` that are equal but in one dimension.
local function lists(name, low, high, along, extra)
  return row(name, { { "tensors", "tensors" } }, function(r)
    local dims, list = r.dims(low, high), {}
    for i = 1, r(1, 4) do
      local own = { table.unpack(dims) }
      local d = along(#dims)
      if d then own[d] = r(0, 4) end
      list[i] = { dims = own }
    end
    return { tensors = list }
  end, extra)
end

local function mrt_of(name, extra)
  extra = extra or {}
  extra.ours = "mrt." .. name
  return extra
end

-- Sizes that multiply to n.
local function factors(r, n)
  local list = {}
  while n > 1 and #list < 4 do
    local f = r(1, n)
    while n % f ~= 0 do f = f - 1 end
    list[#list + 1], n = f, n // f
  end
  list[#list + 1] = n
  return list
end

local function permutation(r, n)
  local order = {}
  for d = 1, n do table.insert(order, r(1, d), d) end
  return order
end

local function split_draw(low, dim_of)
  return function(r)
    local dims = r.dims(low, 3)
    for d = 1, #dims do dims[d] = math.max(1, dims[d]) end
    local size = dims[dim_of(dims)]
    local how = r(1, size)
    while size % how ~= 0 do how = how - 1 end
    local _, value = nil, how
    if r.bool() then value = { r(0, 3), r(2, 5) } end
    return { input = { dims = dims }, indices_or_sections = value }
  end
end

local function split_row(name, low, dim_of)
  return row(name, { input, { "indices_or_sections", "shape" } }, split_draw(low, dim_of), {
    expression = function(v)
      local how = v.indices_or_sections
      return ("torch.%s(a, %s)"):format(name, type(how) == "table"
        and "(" .. table.concat(how, ", ") .. ",)" or how)
    end })
end

return {
  row("reshape", { input, { "shape", "shape" } }, function(r)
    local dims = r.dims(0, 4)
    local shape = factors(r, count(dims))
    return { input = { dims = dims }, shape = count(dims) > 0 and shape or { 0, 3 } }
  end),
  row("Tensor.view", { input, { "shape", "shape" } }, function(r)
    local dims = r.dims(1, 4)
    return { input = { dims = dims }, shape = { count(dims) } }
  end, { differs = "a layout that strides cannot express is copied, there refused",
    expression = function(v) return ("a.view(%d)"):format(v.shape[1]) end }),
  row("permute", { input, { "dims", "dims" } }, function(r)
    local dims = r.dims(1, 4)
    return { input = { dims = dims }, dims = permutation(r, #dims) }
  end),
  two_dims("transpose", "dim0", "dim1"), two_dims("swapaxes", "axis0", "axis1"),
  two_dims("swapdims", "dim0", "dim1"),
  alone("t", 0, 2),
  row("squeeze", { input, { "dim", "dims" } }, function(r)
    local dims = r.dims(1, 4)
    for d = 1, #dims do if r.bool() then dims[d] = 1 end end
    return { input = { dims = dims }, dim = r.bool() and { r.dim(dims) } or nil }
  end),
  row("unsqueeze", { input, { "dim", "dim" } }, function(r)
    local dims = r.dims(0, 4)
    return { input = { dims = dims }, dim = r(1, #dims + 1) }
  end),
  row("flatten", { input, { "start_dim", "dim", 1 }, { "end_dim", "dim", -1 } }, function(r)
    local dims = r.dims(1, 4)
    local first = r(1, #dims)
    return { input = { dims = dims }, start_dim = first, end_dim = r(first, #dims) }
  end),
  alone("ravel", 0, 3),
  row("unflatten", { input, { "dim", "dim" }, { "sizes", "shape" } }, function(r)
    local dims = r.dims(1, 3)
    local d = r.dim(dims)
    local sizes = factors(r, math.max(1, at(dims, d)))
    if at(dims, d) == 0 then sizes = { 0, 2 } end
    return { input = { dims = dims }, dim = d, sizes = sizes }
  end),
  row("movedim", { input, { "source", "dims" }, { "destination", "dims" } }, function(r)
    local dims = r.dims(1, 4)
    local n = r(1, #dims)
    local from, to = permutation(r, #dims), permutation(r, #dims)
    return { input = { dims = dims }, source = { table.unpack(from, 1, n) },
      destination = { table.unpack(to, 1, n) } }
  end),
  row("moveaxis", { input, { "source", "dim" }, { "destination", "dim" } }, function(r)
    local dims = r.dims(1, 4)
    return { input = { dims = dims }, source = r.dim(dims), destination = r.dim(dims) }
  end),
  row("narrow", { input, { "dim", "dim" }, { "start", "dim" }, { "length", "int" } },
    function(r)
      local dims = { r(1, 6), r(1, 6), r(1, 6) }
      local d = r.dim(dims)
      local first = r(1, at(dims, d))
      return { input = { dims = dims }, dim = d, start = first,
        length = r(0, at(dims, d) - first + 1) }
    end, { differs = "positions count from 1" }),
  row("unbind", { input, { "dim", "dim", 1 } }, function(r)
    local dims = { r(2, 4), r(2, 4), r(2, 4) }
    return { input = { dims = dims }, dim = r.dim(dims) }
  end, { results = 2 }),
  row("chunk", { input, { "chunks", "int" }, { "dim", "dim", 1 } }, function(r)
    local dims = { r(2, 9), r(2, 9) }
    return { input = { dims = dims }, chunks = r(1, 5), dim = r.dim(dims) }
  end),
  row("split", { input, { "split_size_or_sections", "int" }, { "dim", "dim", 1 } }, function(r)
    local dims = { r(2, 9), r(2, 9) }
    return { input = { dims = dims }, split_size_or_sections = r(1, 9), dim = r.dim(dims) }
  end, { differs = "`size` by name; sizes of several parts: tensor_split",
    call = function(v) return v.input:split(v.split_size_or_sections, v.dim) end }),
  row("tensor_split", { input, { "indices_or_sections", "shape" }, { "dim", "dim", 1 } },
    function(r)
      local dims = { r(1, 9), r(1, 9) }
      local how = r(1, 4)
      if r.bool() then how = { r(-3, 9), r(0, 9) } end
      return { input = { dims = dims }, indices_or_sections = how, dim = r.dim(dims) }
    end, { expression = function(v)
      local how = v.indices_or_sections
      return ("torch.tensor_split(a, %s, %d)"):format(type(how) == "table"
        and "(" .. table.concat(how, ", ") .. ",)" or how, v.dim > 0 and v.dim - 1 or v.dim)
    end }),
  split_row("hsplit", 1, function(dims) return #dims == 1 and 1 or 2 end),
  split_row("vsplit", 2, function() return 1 end),
  lists("cat", 1, 3, function() return 1 end, mrt_of("cat", {
    size = function(n)
      return { tensors = { { dims = { n // 200, 100 } }, { dims = { n // 200, 100 } } } }
    end })),
  { torch = "torch.concat", ours = "mrt.cat", args = { { "tensors", "tensors" },
    { "dim", "dim", 1 } }, differs = "cat, the same" },
  lists("stack", 0, 3, function() return nil end, mrt_of "stack"),
  lists("hstack", 0, 3, function(n) return n == 1 and 1 or n > 1 and 2 or nil end,
    mrt_of "hstack"),
  lists("vstack", 1, 3, function(n) return n > 1 and 1 or nil end, mrt_of "vstack"),
  lists("dstack", 1, 3, function(n) return n > 2 and 3 or nil end, mrt_of "dstack"),
  lists("column_stack", 1, 2, function(n) return n > 1 and 2 or nil end,
    mrt_of "column_stack"),
  alone("atleast_1d", 0, 3, mrt_of "atleast_1d"), alone("atleast_2d", 0, 3, mrt_of "atleast_2d"),
  alone("atleast_3d", 0, 4, mrt_of "atleast_3d"),
  row("broadcast_to", { input, { "size", "shape" } }, function(r)
    local dims = r.dims(0, 3)
    local shape = { table.unpack(dims) }
    for d = 1, #dims do
      if r.bool() then dims[d], shape[d] = 1, r(0, 5) end
    end
    if r.bool() then table.insert(shape, 1, r(1, 4)) end
    return { input = { dims = dims }, size = shape }
  end),
  { torch = "torch.broadcast_tensors", ours = "mrt.broadcast_tensors", grad = true, results = 2,
    args = { { "tensors", "tensors" } },
    draw = function(r)
      local a, b = r(1, 5), r(1, 5)
      return { tensors = { { dims = { a, 1 } }, { dims = { b } } } }
    end,
    expression = function() return "torch.broadcast_tensors(a, b)" end },
  { torch = "torch.Tensor.expand", ours = "Tensor.expand", args = { input, { "size", "shape" } } },
  { torch = "torch.Tensor.expand_as", ours = "Tensor.expand_as", grad = true,
    args = { input, { "other", "tensor" } },
    draw = function(r)
      local n = r(1, 5)
      return { input = { dims = { 1, n } }, other = { dims = { r(1, 4), n }, constant = true } }
    end },
  { torch = "torch.Tensor.view_as", ours = "Tensor.view_as", grad = true,
    args = { input, { "other", "tensor" } },
    draw = function(r)
      local a, b = r(1, 5), r(1, 5)
      return { input = { dims = { a, b } }, other = { dims = { b, a }, constant = true } }
    end },
  { torch = "torch.Tensor.repeat", ours = "Tensor.repeat_", grad = true, dtypes = all,
    args = { input, { "repeats", "shape" } },
    differs = "`repeat_`, as `repeat` is a word of Lua; or tile",
    draw = function(r)
      local dims, list = r.dims(0, 3), {}
      for i = 1, #dims + r(0, 2) do list[i] = r(0, 3) end
      return { input = { dims = dims }, repeats = list }
    end,
    expression = function(v) return ("a.repeat(%s)"):format(#v.repeats > 0
      and table.concat(v.repeats, ", ") or "()") end,
    size = function(n) return { input = { dims = { n // 400, 100 } }, repeats = { 2, 2 } } end },
  row("tile", { input, { "dims", "shape" } }, function(r)
    local dims, list = r.dims(0, 3), {}
    for i = 1, r(1, 4) do list[i] = r(0, 3) end
    return { input = { dims = dims }, dims = list }
  end, { size = function(n) return { input = { dims = { n // 400, 100 } }, dims = { 2, 2 } } end }),
  row("flip", { input, { "dims", "dims" } }, function(r)
    local dims = r.dims(1, 4)
    return { input = { dims = dims }, dims = { r.dim(dims) } }
  end, { size = function(n) return { input = { dims = { n // 100, 100 } }, dims = { 1, 2 } } end }),
  alone("fliplr", 2, 3, { size = square }), alone("flipud", 1, 3, { size = square }),
  row("roll", { input, { "shifts", "shape" }, { "dims", "dims" } }, function(r)
    local dims = r.dims(1, 3)
    if r.bool() then return { input = { dims = dims }, shifts = { r(-9, 9) } } end
    return { input = { dims = dims }, shifts = { r(-9, 9), r(-2, 2) },
      dims = { r.dim(dims), r.dim(dims) } }
  end, { size = function(n)
    return { input = { dims = { n // 100, 100 } }, shifts = { 7 }, dims = { 1 } }
  end }),
  row("rot90", { input, { "k", "int", 1 }, { "dims", "dims" } }, function(r)
    return { input = { dims = r.dims(2, 3) }, k = r(-4, 4), dims = r.pick { { 1, 2 }, { 2, 1 } } }
  end, { size = function(n)
    local drawn = square(n)
    drawn.k, drawn.dims = 1, { 1, 2 }
    return drawn
  end }),
  row("diag", { input, { "diagonal", "int", 0 } }, function(r)
    return { input = { dims = r.dims(1, 2) }, diagonal = r(-3, 3) }
  end, { size = square, takes_more = true }),
  row("diagonal", { input, { "offset", "int", 0 }, { "dim1", "dim", 1 }, { "dim2", "dim", 2 } },
    function(r)
      local dims = r.dims(2, 4)
      local order = permutation(r, #dims)
      return { input = { dims = dims }, offset = r(-3, 3), dim1 = order[1], dim2 = order[2] }
    end),
  row("diag_embed", { input, { "offset", "int", 0 }, { "dim1", "dim", -2 },
    { "dim2", "dim", -1 } }, function(r)
    local dims = r.dims(1, 3)
    local order = permutation(r, #dims + 1)
    return { input = { dims = dims }, offset = r(-3, 3), dim1 = order[1], dim2 = order[2] }
  end, { size = function(n)
    local side = math.floor(n ^ (1 / 3))
    return { input = { dims = { side, side } } }
  end }),
  row("diagflat", { input, { "offset", "int", 0 } }, function(r)
    return { input = { dims = r.dims(0, 2) }, offset = r(-3, 3) }
  end),
  row("Tensor.unfold", { input, { "dimension", "dim" }, { "size", "int" }, { "step", "int" } },
    function(r)
      local dims = { r(1, 7), r(1, 7) }
      local d = r.dim(dims)
      return { input = { dims = dims }, dimension = d, size = r(1, at(dims, d)), step = r(1, 3) }
    end),
  { torch = "torch.meshgrid", ours = "mrt.meshgrid", grad = true, results = 2,
    args = { { "tensors", "tensors" }, { "indexing", "string", "ij", keyword = true } },
    draw = function(r)
      return { tensors = { { dims = { r(1, 5) } }, { dims = { r(1, 5) } }, { dims = { r(1, 3) } } },
        indexing = r.pick { "ij", "xy" } }
    end,
    expression = function(v) return ("torch.meshgrid(a, b, c, indexing='%s')"):format(v.indexing
      or "ij") end },
  { torch = "torch.cartesian_prod", ours = "mrt.cartesian_prod", dtypes = all, grad = true,
    args = { { "tensors", "tensors" } },
    draw = function(r) return { tensors = { { dims = { r(1, 4) } }, { dims = { r(1, 4) } } } } end,
    expression = function() return "torch.cartesian_prod(a, b)" end },
  { torch = "torch.combinations", ours = "mrt.combinations", grad = true, dtypes = all,
    args = { input, { "r", "int", 2 }, { "with_replacement", "bool", false } },
    draw = function(r)
      return { input = { dims = { r(2, 6) } }, r = r(1, 2), with_replacement = r.bool() }
    end },
  { torch = "torch.block_diag", ours = "mrt.block_diag", grad = true,
    args = { { "tensors", "tensors" } },
    draw = function(r)
      return { tensors = { { dims = r.dims(2, 2) }, { dims = { r(1, 4) } }, { dims = { 2, 3 } } } }
    end,
    expression = function() return "torch.block_diag(a, b, c)" end },
  { torch = "torch.nn.functional.pad", ours = "Tensor.pad", grad = true, dtypes = { "f32", "f64" },
    args = { input, { "pad", "shape" }, { "mode", "string", "constant" },
      { "value", "number" } },
    draw = function(r)
      local mode = r.pick { "constant", "reflect", "replicate", "circular" }
      local dims = { r(1, 3), r(1, 3), r(4, 6), r(4, 6) }
      local list = { r(0, 3), r(0, 3), r(0, 3), r(0, 3) }
      if mode == "constant" then list[1] = r(-2, 3) end
      return { input = { dims = dims }, pad = list, mode = mode,
        value = mode == "constant" and r.bool() and 1.5 or nil }
    end,
    size = function(n)
      return { input = { dims = { 1, n // 100, 10, 10 } }, pad = { 1, 1, 1, 1 }, mode = "reflect" }
    end },
  alone("clone", 0, 3), alone("detach", 0, 3, { grad = false }),
  row("tril", { input, { "diagonal", "int", 0 } }, function(r)
    return { input = { dims = r.dims(2, 3) }, diagonal = r(-3, 3) }
  end, { size = square }),
  row("triu", { input, { "diagonal", "int", 0 } }, function(r)
    return { input = { dims = r.dims(2, 3) }, diagonal = r(-3, 3) }
  end, { size = square }),
  { torch = "torch.where", ours = "mrt.where", dtypes = { "f32", "f64", "i64", "i32" }, grad = true,
    args = { { "condition", "tensor" }, { "input", "tensor" }, { "other", "tensor" } },
    draw = function(r)
      local dims = r.dims(0, 3)
      return { condition = { dims = dims, dtype = "bool" }, input = { dims = dims },
        other = { dims = dims } }
    end,
    size = function(n)
      return { condition = { dims = { n }, dtype = "bool" }, input = { dims = { n } },
        other = { dims = { n } } }
    end },
  { torch = "torch.masked_fill", ours = "Tensor.masked_fill", grad = true,
    args = { input, { "mask", "tensor" }, { "value", "number" } },
    draw = function(r)
      local dims = r.dims(0, 3)
      return { input = { dims = dims }, mask = { dims = dims, dtype = "bool" }, value = 2.5 }
    end,
    call = function(v) return v.input:masked_fill(v.mask, v.value) end,
    size = function(n)
      return { input = { dims = { n } }, mask = { dims = { n }, dtype = "bool" }, value = 2.5 }
    end },
  { torch = "torch.as_strided", absent = "views are by dimension: unfold, diagonal, slices" },
}
