--- generate.lua -- `mrt generate FOLDER "text"`: let a model go on with a text.
--
-- What it takes is said first, on standard error; the text goes to standard output as it
-- comes.
--
-- SPDX-License-Identifier: MIT

local generation = require "mrt.cli.generation"

-- The text that it is to go on with.
local function prompt_of(args)
  if args.text and args.text ~= "-" then return args.text end
  return io.read "a"
end

local function write(stream)
  for piece in stream do
    local ok, message = io.write(piece)
    if ok then ok, message = io.flush() end
    if not ok then return nil, message end
  end
  return io.write "\n"
end

local function write_text(args)
  local model, message = generation.open(args)
  if not model then return nil, message end
  local o = generation.options(model, args)
  o.prompt = prompt_of(args)
  local stream = model:generate(o)
  generation.tell(args, model, stream)
  local before = os.clock()
  local ok, problem = write(stream)
  if not ok then return nil, problem end
  if args.verbose then
    local count, seconds = #stream:ids(), os.clock() - before
    io.stderr:write(("%d tokens (%s), %.3f s of processor time each\n"):format(count,
      stream:reason(), seconds / math.max(count, 1)))
  end
  return true
end

return generation.parser {
  name = "mrt generate",
  about = "Let a model go on with a text.",
  { "FOLDER", "a model: a folder as transformers writes it, or a .gguf file" },
  { "[TEXT]", "- or none: standard input" },
  run = generation.command("generate", write_text),
}
