--- text -- texts as ids, and messages as texts
---
---     local tok = assert(mrt.text.tokenizer "folder of a model")
---     tok:encode "Hello, world!"                       -- {9906, 11, 1917, 0}
---     tok:chat({ { role = "user", content = "Hello" } }, { generation_prompt = true })
---
--- SPDX-License-Identifier: MIT

local text = {}

--- Open a tokenizer: see `mrt.text.tokenizer`'s own page.
---@param path string  a folder, or a file
---@param o? mrt.text.TokenizerOptions
---@return mrt.text.Tokenizer? tokenizer
---@return string? message
---@return string? code
function text.tokenizer(path, o) return require "mrt.text.tokenizer".open(path, o) end

return text
