--- scheme_nets.lua -- the ResNet and the LSTM of memory_schemes.lua
---
--- As Chen et al. 2016 (arXiv 1604.06174) drew them; sizes to plan, and small ones
--- to run.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn = mrt.nn

-- conv, norm, relu
local Layer = nn.Module "Layer"

function Layer:init(inputs, outputs, kernel, stride)
  self.conv = nn.Conv2d(inputs, outputs, kernel,
    { stride = stride, padding = kernel // 2 })
  self.norm = nn.BatchNorm(outputs)
end

function Layer:forward(x) return self.norm(self.conv(x)):relu() end

-- The block as it was published with the figures: relu before the sum only.
local Block = nn.Module "Block"

function Block:init(inputs, width, stride, first)
  self.layers = { Layer(inputs, width, 1, 1), Layer(width, width, 3, stride),
    Layer(width, 4 * width, 1, 1) }
  if first then self.shortcut = Layer(inputs, 4 * width, 1, stride) end
end

function Block:forward(x)
  local y = x
  for _, layer in ipairs(self.layers) do y = layer(y) end
  return (self.shortcut and self.shortcut(x) or x) + y
end

local ResNet = nn.Module "ResNet"

function ResNet:init(blocks)
  self.stem, self.blocks = Layer(3, 64, 7, 2), {}
  local inputs = 64
  for s, count in ipairs(blocks) do
    local width = 64 << s - 1
    for i = 1, count do
      local first = i == 1
      self.blocks[#self.blocks + 1] = Block(inputs, width, first and s > 1 and 2 or 1,
        first)
      inputs = 4 * width
    end
  end
  self.head = nn.Linear(inputs, 1000)
end

function ResNet:forward(x)
  x = self.stem(x):max_pool2d(3, { stride = 2, padding = 1 })
  for _, block in ipairs(self.blocks) do x = mrt.layer(block, x) end
  return self.head(x:global_avg_pool2d())
end

local nets = {}

nets.resnet = {
  title = "ResNet", sizes = { "3,4,6,3", "3,4,23,3", "3,8,36,3" },
  deep = { "3,24,36,3", "3,83,243,3" }, small = { "1,1,1,1", "2,2,2,2", "3,4,6,3" },
  axis = "layers",
  -- A loss and what it is of; `small` for --run.
  make = function(size, small)
    local blocks = {}
    for n in size:gmatch "%d+" do blocks[#blocks + 1] = math.tointeger(n) end
    local model = ResNet(blocks)
    local rows, side = small and 8 or 32, small and 64 or 224
    return { parameters = model:parameters(), layers = #model.blocks,
      inputs = { { rows, 3, side, side }, { rows } }, classes = 1000,
      loss = function(x, y) return nn.cross_entropy(model(x), y) end }
  end,
  depth = function(size)
    local blocks = 0
    for n in size:gmatch "%d+" do blocks = blocks + n end
    return 2 + 3 * blocks
  end,
  schemes = { "no optimisation", "in-place", "sharing", "drop norm and relu",
    "sublinear", "solver, as little", "solver, a seventh" },
}

-- A loss at every step; so many steps are a layer to checkpoint policies.
local CHUNK <const> = 16

nets.lstm = {
  title = "LSTM", sizes = { "64", "256" }, deep = { "512", "1024", "2048" },
  small = { "32", "64", "128" }, axis = "steps",
  make = function(size, small)
    local T, N, H = math.tointeger(tonumber(size)), small and 8 or 64,
      small and 128 or 1024
    local classes = small and 500 or 5000
    local lstm, head = nn.LSTM(50, H, { layers = 4 }), nn.Linear(H, classes)
    local params = lstm:parameters()
    for _, p in ipairs(head:parameters()) do params[#params + 1] = p end
    local function chunk(x, y, h, c)
      local r, hidden, cell = lstm(x, h, c)
      return nn.cross_entropy(head(r):reshape(-1, classes), y:reshape(-1)), hidden, cell
    end
    return { parameters = params, layers = T // CHUNK, inputs = { { T, N, 50 }, { T, N } },
      classes = classes, loss = function(x, y)
        local function at(i, h, c)
          return mrt.layer(chunk, x:slice(1, i, i + CHUNK - 1), y:slice(1, i, i + CHUNK - 1), h, c)
        end
        local sum, h, c = at(1, mrt.zeros(4, N, H), mrt.zeros(4, N, H))
        for i = CHUNK + 1, T, CHUNK do
          local loss
          loss, h, c = at(i, h, c)
          sum = sum + loss
        end
        return sum / (T // CHUNK)
      end }
  end,
  depth = function(size) return math.tointeger(tonumber(size)) end,
  schemes = { "no optimisation", "in-place", "sharing", "sublinear",
    "solver, as little", "solver, a seventh" },
}

return nets
