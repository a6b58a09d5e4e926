--- cluster_rows.lua -- rows of published steps, as jobs on clusters
---
--- Which machine and which software a row was run by is said by its device, source, notes.
---
--- SPDX-License-Identifier: MIT

local rows = {}

-- The fields of a line; those in quotes may have commas.
local function fields(line)
  local list, at = {}, 1
  while at <= #line + 1 do
    local quoted, after = line:match('^"([^"]*)"()', at)
    local plain = not quoted and line:match("^[^,]*", at)
    list[#list + 1] = quoted or plain
    at = (quoted and after or at + #plain) + 1
  end
  return list
end

--- The rows of a table, columns by name.
---@param path string
---@return table<string, string>[]
function rows.of(path)
  local file <close> = assert(io.open(path))
  local names, list
  for line in file:lines() do
    local values = fields(line)
    if names then
      local row = {}
      for i, name in ipairs(names) do row[name] = values[i] or "" end
      list[#list + 1] = row
    else
      names, list = values, {}
    end
  end
  return list or {}
end

-- ---- sources -------------------------------------------------------------------

local machine_of <const> = { ["A100-80"] = "dgx-a100", ["A100-40"] = "dgx-a100-40",
  ["H100-80"] = "dgx-h100", ["H100-96-500W"] = "dgx-h100-500w", H200 = "dgx-h200",
  B200 = "dgx-b200", GB200 = "gb200-nvl72", GB300 = "gb300-nvl72", ["V100-32"] = "dgx-2h",
  TPUv4 = "tpu-v4", TPUv5e = "tpu-v5e", TPUv5p = "tpu-v5p" }

-- By a text in the source: the group's name, its software, its machine if the device does
-- not say which.
local sources <const> = {
  { "ground_truth_single", "vTrain, one node", "megatron", "a100-800g" },
  { "ground_truth_multi", "vTrain, many nodes", "megatron", "a100-800g" },
  { "llm-foundry", "MosaicML llm-foundry", "composer" },
  { "bigscience", "BigScience BLOOM", "megatron_deepspeed", "jean-zay" },
  { "Table 2 (ZeRO-3", "Narayanan et al. SC21", "zero3_2021", zero = 3 },
  { "2104.04473", "Narayanan et al. SC21", "megatron" },
  { "2205.05198", "Korthikanti et al.", "megatron_sp" },
  { "Sept 2020", "Megatron 2020", "megatron_2020" },
  { "MT-NLG", "MT-NLG", "megatron_deepspeed" },
  { "NeMo/Megatron-Bridge", "Megatron-Bridge", "megatron_core" },
  { "NVIDIA/NeMo@", "NeMo 24.07", "megatron_core" },
  { "README images/model_table", "Megatron-Core README", "megatron_core" },
  { "torchtitan", "torchtitan", "fsdp_eager" },
  { "YaFSDP", "YaFSDP", "fsdp_eager", "a100-800g" },
  { "JAX-Toolbox", "JAX-Toolbox", "xla" },
  { "maxtext", "MaxText", "xla" },
  { "llm.c", "llm.c", "llmc" },
  { "llmc", "llm.c", "llmc" },
}

local function source_of(row)
  for _, s in ipairs(sources) do
    local stage = not s.zero or row.zero_stage == tostring(s.zero)
    if stage and row.source:find(s[1], 1, true) then return s end
  end
end

-- ---- a job ---------------------------------------------------------------------

local function int(text, default)
  local n = math.tointeger(tonumber(text))
  return n or default
end

local gated <const> = { llama = true, qwen2 = true, palm = true }

-- Layers that a source leaves out follow from the parameters that it states.
local function layers_of(row, m)
  if int(row.layers) then return int(row.layers) end
  local billions = tonumber(row.params_b)
  if not billions then return nil end
  local each = 4 * m.hidden ^ 2 + 2 * m.hidden * m.ffn
  return math.floor((billions * 1e9 - m.vocab * m.hidden) / each + 0.5)
end

local function model_of(row)
  local m = { hidden = int(row.hidden), heads = int(row.heads), kv_heads = int(row.kv_heads),
    ffn = int(row.ffn), vocab = int(row.vocab), seq = int(row.seq), gated = gated[row.arch] }
  if not (m.hidden and m.heads and m.vocab and m.seq) then return nil end
  m.ffn = m.ffn or 4 * m.hidden
  m.layers = layers_of(row, m)
  if row.model:find "^MPT" then m.bias = false end
  return m.layers and m or nil
end

-- "none(not stated)", "5 layers checkpointed", "selective(op)"
local function recompute_of(row)
  local text = row.recompute
  local n = int(text:match "^(%d+) layers")
  if n then return n > 0 and "full" or "none", n end
  if text == "selective(op)" then return "half" end
  return ({ full = "full", selective = "selective" })[text] or "none"
end

local narrow <const> = { fp8 = "f8", mxfp8 = "f8", ["fp8-cs"] = "f8", nvfp4 = "f4",
  ["fp8 tensorwise"] = "f8" } -- rows of scales were no quicker than bf16 then

-- Whatever a row says about its software besides its source (software.lua has the names).
local function traits_of(row)
  local t, notes = { narrow = narrow[row.precision] }, row.notes
  if notes:find "DEFAULT" or notes:find "fp32 grad accumulation" then t.gradient = 4 end
  if notes:find "compile" and row.source:find "torchtitan" then t.host = 0.5 end
  if notes:find "no sequence parallelism" then t.sequence, t.hidden_tensor = false, 0 end
  if notes:find "[Aa]sync ?TP" then t.hidden_tensor = 0.6 end
  return t
end

local function seconds_of(row, gbs)
  local t = tonumber(row.step_time_s)
  if t then return t end
  local rate = tonumber(row.tokens_per_s_per_gpu)
  return rate and gbs * int(row.seq) / (rate * int(row.n_gpu))
end

local function mesh_of(row)
  local mesh = { tensor = int(row.tp, 1), pipeline = int(row.pp, 1), context = int(row.cp, 1) }
  local n = int(row.n_gpu)
  local rest = mesh.tensor * mesh.pipeline * mesh.context
  mesh.data = n and n % rest == 0 and n // rest or nil
  return mesh.data and mesh
end

-- Micro-batches of a rank, or why there are none.
local function micros_of(row, mesh)
  local gbs, rows_of = int(row.gbs), int(row.mbs)
  if not (gbs and rows_of and mesh) then return nil, "no batch or mesh" end
  local micros = gbs / (rows_of * mesh.data)
  if micros < 1 or micros % 1 ~= 0 then return nil, "micro-batches do not divide the batch" end
  return math.tointeger(micros)
end

local function described(row, source, model, mesh, micros)
  local recompute, recomputed = recompute_of(row)
  return { group = source[2], cluster = ("%s:%d"):format(source[4] or machine_of[row.gpu],
      int(row.n_gpu)),
    software = row.notes:find "YaFSDP" and "yafsdp" or source[3], traits = traits_of(row),
    job = { model = model, mesh = mesh, rows = int(row.mbs), micros = micros,
      chunks = int(row.vpp, 1), zero = int(row.zero_stage, 0), recompute = recompute,
      recomputed = recomputed } }
end

--- A row as a job.
---@param row table<string, string>
---@return {group: string, cluster: string, software: string, traits: table, job: table,
---  seconds: number}?
---@return string? why  it cannot be read
function rows.job(row)
  local source = source_of(row)
  if not source then return nil, "software not known" end
  if not (source[4] or machine_of[row.gpu]) then return nil, "no machine" end
  local model, mesh = model_of(row), mesh_of(row)
  if not model then return nil, "no shape of the model" end
  local micros, why = micros_of(row, mesh)
  if not micros then return nil, why end
  local found = described(row, source, model, mesh, micros)
  found.seconds = seconds_of(row, int(row.gbs))
  if not found.seconds then return nil, "no time" end
  return found
end

return rows
