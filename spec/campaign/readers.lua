--- readers.lua -- broken files for every reader, under the sanitizers
---
--- The corpus is written anew in each round, since a mutation may be of any of
--- its files; all inputs follow from the seed.
---
--- SPDX-License-Identifier: MIT

local program = require "support.program"

local INPUTS <const> = 50000
local readers <const> = { "safetensors", "shards", "npy", "npz", "idx", "cifar10", "cifar100",
  "tokens", "csv", "bpe" }

return {
  about = "broken files of every format for their readers, under the sanitizers",
  unit = "inputs", program = "sanitized",
  round = function(seed, folder)
    local code, out = program.shell(("%s spec/io/corpus.lua %s"):format(program.path, folder))
    if code ~= 0 then return 0, { out } end
    local reader = readers[seed % #readers + 1]
    local binary = program.path:gsub("[^/]*$", "spec/fuzz_" .. reader)
    code, out = program.shell(("%s %d %s/%s %d"):format(binary, INPUTS, folder, reader, seed))
    return INPUTS, code ~= 0 and { reader .. ": " .. out } or {}
  end,
}
