--- readers.lua -- broken files for every reader, under the sanitizers
---
--- By libFuzzer where clang is there, which keeps what reaches new code; else by
--- mutations that know nothing (spec/io/fuzz_main.c).  Either begins with the
--- corpus, written anew in each round, so all inputs follow from the seed.
---
--- SPDX-License-Identifier: MIT

local program = require "support.program"

local readers <const> = { "safetensors", "shards", "npy", "npz", "idx", "cifar10", "cifar100",
  "tokens", "csv", "bpe", "tokenizer", "sentencepiece", "tiktoken" }
local has_clang <const> = program.shell "command -v clang clang++" == 0
local INPUTS <const> = has_clang and 200000 or 50000

return {
  about = "broken files of every format for their readers, under the sanitizers",
  unit = "inputs", program = has_clang and "fuzzers" or "sanitized", timeout = 1200,
  round = function(seed, folder)
    local code, out = program.shell(("%s spec/io/corpus.lua %s"):format(program.path, folder))
    if code ~= 0 then return 0, { out } end
    local reader = readers[seed % #readers + 1]
    local line = has_clang and "%s/spec/fuzz_%s -runs=%d %s/%s -seed=%d -max_len=4096 "
      .. "-verbosity=0 -artifact_prefix=" .. folder .. "/" or "%s/spec/fuzz_%s %d %s/%s %d"
    code, out = program.shell(line:format(os.getenv "MRT_SANITIZED_FOLDER", reader, INPUTS,
      folder, reader, seed))
    return INPUTS, code ~= 0 and { reader .. ": " .. out } or {}
  end,
}
