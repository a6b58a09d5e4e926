--- candidates.lua -- meshes, micro-batches, recomputation, ZeRO, chunks and precision to try
---
--- SPDX-License-Identifier: MIT

local candidates = {}

local LONG <const> = 4096 -- tokens from which on the sequence is cut
local MOST_CHUNKS <const> = 12
local rows <const> = { 1, 2, 4, 8, 16 }

local function divisors(n, most)
  local list = {}
  for d = 1, math.min(n, most or n) do if n % d == 0 then list[#list + 1] = d end end
  return list
end

local function fits_tensor(model, t)
  return model.heads % t == 0 and model.kv_heads % t == 0 and model.hidden % t == 0
    and model.ffn % t == 0
end

local function fits_context(model, t, c)
  return model.seq % (c * t) == 0 and (c == 1 or model.seq // c >= LONG)
end

-- Numbers of ranks that may share the experts.
local function experts_of(model, rest)
  local list = {}
  for _, e in ipairs(divisors(rest, model.experts or 1)) do
    if (model.experts or 1) % e == 0 then list[#list + 1] = e end
  end
  return list
end

-- Meshes of which `rest` ranks have rows of their own.
local function add_meshes(list, o, mesh, rest)
  if o.batch % rest ~= 0 then return end
  for _, e in ipairs(experts_of(o.model, rest)) do
    list[#list + 1] = { tensor = mesh.tensor, context = mesh.context, pipeline = mesh.pipeline,
      expert = e, data = rest // e }
  end
end

-- Meshes of so many ranks that divide the model and the batch.
local function meshes(o)
  local list, N, model = {}, o.cluster.devices, o.model
  for _, t in ipairs(divisors(N, o.cluster.levels[1].size or 8)) do
    for _, c in ipairs(fits_tensor(model, t) and divisors(N // t, 64) or {}) do
      local rest = N // (t * c)
      for _, p in ipairs(fits_context(model, t, c) and divisors(rest, model.layers) or {}) do
        add_meshes(list, o, { tensor = t, context = c, pipeline = p }, rest // p)
      end
    end
  end
  return list
end

-- Chunks of layers a stage may have in turn.
local function chunks_of(model, mesh, micros, most)
  local P = mesh.pipeline
  if P == 1 or micros % P ~= 0 or model.layers % P ~= 0 then return { 1 } end
  return divisors(model.layers // P, most)
end

local function zeros_of(mesh)
  if mesh.data * mesh.expert * mesh.context == 1 then return { 0 } end
  return mesh.pipeline == 1 and { 0, 1, 2, 3 } or { 0, 1 }
end

-- Where scores are not stored, "selective" has nothing to compute again.
local function recomputed(software)
  return software.attention == "scores" and { "none", "selective", "full" } or { "none", "full" }
end

local function add(list, o, mesh, micro, micros)
  for _, chunks in ipairs(chunks_of(o.model, mesh, micros, o.own and 1 or MOST_CHUNKS)) do
    for _, zero in ipairs(zeros_of(mesh)) do
      for _, recompute in ipairs(recomputed(o.software)) do
        for _, precision in ipairs(o.precisions) do
          list[#list + 1] = { mesh = mesh, rows = micro, micros = micros, chunks = chunks,
            zero = zero, recompute = recompute, precision = precision }
        end
      end
    end
  end
end

--- All that are tried; none where nothing divides.
---@param o {cluster: mrt.Cluster, model: mrt.cluster.Model, batch: integer, software: table,
---  precisions: string[], own: boolean?}
---@return table[]
function candidates.of(o)
  local list = {}
  for _, mesh in ipairs(meshes(o)) do
    local own = o.batch // (mesh.data * mesh.expert)
    for _, micro in ipairs(rows) do
      if own % micro == 0 and (mesh.pipeline == 1 or own // micro >= 2) then
        add(list, o, mesh, micro, own // micro)
      end
    end
  end
  return list
end

return candidates
