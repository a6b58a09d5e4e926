-- gguf_codes_spec.lua -- codes of a GGUF file become a model's, bit for bit

local mrt = require "mrt"
local files = require "support.files"
local gguf = require "mrt.pretrained.gguf"
local nn = mrt.nn

-- Two folders: a Llama, of whose queries GGUF has other rows, and a Phi, with biases.
local makers = {
  llama = function(tie)
    return nn.Decoder { vocab = 96, dim = 64, layers = 2, heads = 4, kv_heads = 2, context = 64,
      hidden = 96, tie = tie }
  end,
  phi = function()
    return nn.Decoder { vocab = 96, dim = 64, layers = 1, heads = 4, context = 64, hidden = 96,
      norm = "layer", activation = "gelu_tanh", gated = false, parallel = "one",
      bias = { qkv = true, out = true, mlp = true, head = true },
      rope = { width = 8 } }
  end,
}

local function file_of(family, type_, tie)
  local folder, path = files.folder(), files.name ".gguf"
  mrt.seed(3)
  assert(makers[family](tie):save(folder, { family = family }))
  assert(gguf.export(folder, path, { type = type_ }))
  return path
end

-- Codes of a block in which none is the smallest, as those who weigh errors may choose them:
-- another scale would be found from its numbers.
local function other_codes(path, name)
  local opened <close> = assert(mrt.open(path))
  local at
  for i, one in ipairs(opened.names) do if one == name then at = i end end
  local codes, scales = opened.source:codes(at)
  local old, by = codes:bytes(), scales:bytes()
  local text = files.read(path)
  local changed = {}
  for i = 1, #by, 2 do
    local own = old:sub(8 * i - 7, 8 * i + 8)
    local block = by:sub(i, i + 1) .. own
    local new = own:gsub(".", function(c)
      local a, b = c:byte() & 15, c:byte() >> 4
      return string.char(math.max(a, 3) | math.max(b, 3) << 4)
    end)
    local first, last = text:find(block, 1, true)
    text = text:sub(1, first - 1) .. block:sub(1, 2) .. new .. text:sub(last + 1)
    changed[#changed + 1] = new
  end
  files.write(path, text)
  return table.concat(changed), by
end

local function alike(x, y) return x:bytes() == y:bytes() end

describe("codes of a GGUF file", function()
  it("are a quantised model's, where the kinds are the same", function()
    for _, kind in ipairs { "q4_0", "q8_0" } do
      for _, case in ipairs { { "llama", true }, { "llama", false }, { "phi" } } do
        local path = file_of(case[1], kind, case[2])
        local packed = assert(nn.load(path, { quantize = kind }))
        local whole = assert(nn.load(path))
        local compared = 0
        for name, module in packed:modules() do
          local own = whole
          for part in name:gmatch "[^.]+" do own = own and own[tonumber(part) or part] end
          local is = module.type == "QuantizedLinear" and own and own.type == "Linear"
          if is and name ~= "head" then
            assert.is_true(alike(own.weight, module:weights()), name)
            if own.bias then assert.is_true(alike(own.bias, module.bias)) end
            compared = compared + 1
          end
        end
        assert.equal(case[1] == "phi" and 6 or 14, compared)
        if kind == "q8_0" then -- the head and the table too
          local ids = mrt.arange(0, 20):reshape(1, 20):to "i32"
          local x, y = whole(ids), packed(ids)
          assert.is_true((x - y):abs():amax():item() <= 1e-5 * x:abs():amax():item())
        end
      end
    end
  end)

  it("stay as somebody else has chosen them", function()
    local path = file_of("llama", "q4_0")
    local codes, scales = other_codes(path, "blk.1.ffn_down.weight")
    local down = assert(nn.load(path, { quantize = "q4_0" })).blocks[2].mlp.down
    assert.equal(codes, down.codes:bytes())
    assert.equal(scales, down.scales:bytes())
    local again = assert(nn.load(path, { quantize = "nf4", dtype = "bf16" }))
    assert.equal("nf4", again.blocks[2].mlp.down.kind)
  end)

  it("are read of nothing else", function()
    local path = file_of("llama", "q5_0")
    local opened <close> = assert(mrt.open(path))
    assert.error_matches(function() opened.source:codes(1) end, "is no matrix of Q4_0 or Q8_0")
    local model = assert(nn.load(path, { quantize = "q4_0", dtype = "bf16" }))
    assert.equal("q4_0", model.blocks[1].attention.q.kind)
  end)
end)
