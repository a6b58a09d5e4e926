-- attention_oracle.lua -- attention, its gradient and that by pages, pair by pair
--
-- Shapes: B batches, T queries of H heads, S keys of Hk heads, D, Dv wide.
-- Positions count from 0 here.

local oracle = {}

local function tensor(dims)
  local n, data = 1, {}
  for i = 1, #dims do n = n * dims[i] end
  for i = 1, n do data[i] = 0.0 end
  return { dims = dims, data = data }
end

-- Index of x[b][t][h][1], less one.
local function at(x, b, t, h)
  local d = x.dims
  return ((b * d[2] + t) * d[3] + h) * d[4]
end

local function dot(x, i, y, j, n)
  local s = 0.0
  for k = 1, n do s = s + x.data[i + k] * y.data[j + k] end
  return s
end

-- The inputs that may be absent, of those behind `after` others.
local function optional(ins, after, has)
  local found, i = {}, after
  for bit, name in ipairs { "mask", "queries", "keys", "at" } do
    if has >> (bit - 1) & 1 == 1 then
      i = i + 1
      found[name] = ins[i]
    end
  end
  return found
end

-- Index of the mask's number for a pair.
local function mask_at(mask, b, h, t, s)
  local d = mask.dims
  local function of(k, x) return d[k] == 1 and 0 or x end
  return ((of(1, b) * d[2] + of(2, h)) * d[3] + of(3, t)) * d[4] + of(4, s) + 1
end

-- The first and the last key that a query sees by its place; where its sample
-- begins and ends.
local function span(m, options, b, t, T, S)
  T = m.queries and m.queries.data[b + 1] or T
  S = m.keys and m.keys.data[b + 1] or S
  local first = options.offset or S - T
  if m.at then first = m.at.data[b + 1] end
  local left, right = options.left or -1, options.right or -1
  if options.causal then right = 0 end
  local from = left < 0 and 0 or math.max(0, first + t - left)
  local last = right < 0 and S - 1 or math.min(S - 1, first + t + right)
  if t >= T then last = -1 end
  return from, last
end

-- The score of a pair, and what softcap multiplies its gradient by.
local function score(x, cap)
  if not cap or cap == 0 then return x, 1.0 end
  local e = math.exp(-2 * math.abs(x / cap))
  local y = (1 - e) / (1 + e) * (x < 0 and -1 or 1)
  return cap * y, 1 - y * y
end

-- Call visit(b, t, h, key_head, pairs, lse, scale) for every query; pairs are
-- those it sees: {s = , weight = , slope = , row = of k and v, mask = index}.
local function each_query(ins, after, options, S, row, visit)
  local q, k = ins[1], ins[2]
  local B, T, H, D = table.unpack(q.dims)
  local Hk, m = k.dims[3], optional(ins, after, options.has or 0)
  local scale = options.scale or 0
  if scale == 0 then scale = 1 / math.sqrt(D) end
  for i = 0, B * T * H - 1 do
    local b, t, h = i // (T * H), i // H % T, i % H
    local hk = h // (H // Hk)
    local from, last = span(m, options, b, t, T, S)
    local list, max, sum = {}, -math.huge, 0.0
    for s = from, last do
      local batch, place = row(b, s)
      local x, slope = score(scale * dot(q, at(q, b, t, h), k, at(k, batch, place, hk), D),
        options.softcap)
      local index = m.mask and mask_at(m.mask, b, h, t, s)
      local more = 0
      if index then
        more = m.mask.data[index]
        if m.mask.dtype == "bool" then more = more == 1 and 0 or -math.huge end
      end
      x = x + more
      if x > -math.huge then
        list[#list + 1] = { s = s, weight = x, slope = slope, mask = index, batch = batch,
          place = place }
        max = math.max(max, x)
      end
    end
    for _, p in ipairs(list) do sum = sum + math.exp(p.weight - max) end
    local lse = #list > 0 and max + math.log(sum) or -math.huge
    for _, p in ipairs(list) do p.weight = math.exp(p.weight - lse) end
    visit(b, t, h, hk, list, lse, scale)
  end
end

local function forward(ins, after, options, S, row)
  local q, v = ins[1], ins[3]
  local B, T, H, Dv = q.dims[1], q.dims[2], q.dims[3], v.dims[4]
  local o, lse = tensor { B, T, H, Dv }, tensor { B, H, T }
  each_query(ins, after, options, S, row, function(b, t, h, hk, list, l)
    local to = at(o, b, t, h)
    for _, p in ipairs(list) do
      local from = at(v, p.batch, p.place, hk)
      for d = 1, Dv do o.data[to + d] = o.data[to + d] + p.weight * v.data[from + d] end
    end
    lse.data[(b * H + h) * T + t + 1] = l
  end)
  return { o, lse }
end

local function own_row(b, s) return b, s end

function oracle.attention(ins, options)
  return forward(ins, 3, options, ins[2].dims[2], own_row)
end

function oracle.paged_attention(ins, options)
  local page, pages = ins[2].dims[2], ins[4]
  local n = pages.dims[2]
  return forward(ins, 4, options, n * page, function(b, s)
    return pages.data[b * n + s // page + 1], s % page
  end)
end

-- The given lse and o enter the formula as they are, true or not.
function oracle.attention_grad(ins, options)
  local q, k, v, o, lse, dout = table.unpack(ins)
  local D, Dv = q.dims[4], v.dims[4]
  local dq, dk, dv = tensor(q.dims), tensor(k.dims), tensor(v.dims)
  local dmask = options.mask_grad and tensor(ins[7].dims)
  local function add(x, i, a, y, j, n)
    for d = 1, n do x.data[i + d] = x.data[i + d] + a * y.data[j + d] end
  end
  each_query(ins, 6, options, k.dims[2], own_row, function(b, t, h, hk, list, l, scale)
    local iq, io = at(q, b, t, h), at(o, b, t, h)
    local given = lse.data[(b * q.dims[3] + h) * q.dims[2] + t + 1]
    local delta = dot(o, io, dout, io, Dv)
    for _, x in ipairs(list) do
      local ik, iv = at(k, b, x.s, hk), at(v, b, x.s, hk)
      local p = x.weight * math.exp(l - given)
      local ds = p * (dot(dout, io, v, iv, Dv) - delta)
      if dmask then dmask.data[x.mask] = dmask.data[x.mask] + ds end
      ds = ds * x.slope * scale
      add(dq, iq, ds, k, ik, D)
      add(dk, ik, ds, q, iq, D)
      add(dv, iv, p, dout, io, Dv)
    end
  end)
  return { dq, dk, dv, dmask }
end

return oracle
