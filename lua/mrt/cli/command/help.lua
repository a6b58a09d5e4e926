--- help.lua -- `mrt help`: how to call the program.
--
-- SPDX-License-Identifier: MIT

local text = [[
mrt script.lua [args]   run a script; its arguments are in `arg` and `...`
mrt                     the prompt: expressions print their value
mrt -e 'code'           run a line; -l name requires a library first,
                        -i gives the prompt afterwards, -v the version,
                        -E ignores LUA_PATH and LUA_INIT, - reads a script
                        from standard input, -- ends the options;
                        --policy FILE lays the options of mrt.compile that
                        FILE returns over those of the script
]]

local commands = {
  { "bench NAME", "measure; mrt bench lists what" },
  { "chat FOLDER", "talk with a model; --help lists options" },
  { "help", "this page" },
  { "estimate NAME", "memory from formulas, without a graph: gpt3, transformer, ...;"
    .. "\n" .. (" "):rep(25) .. "--json prints JSON" },
  { "export FOLDER", "write a model for llama.cpp: --out FILE.gguf --type q4_0" },
  { "finetune FOLDER", "train a model on samples: --data FILE --out FOLDER"
    .. "\n" .. (" "):rep(25) .. "--memory BYTES --method lora; --help lists the options" },
  { "generate FOLDER ...", "let a model go on with a text; --help lists options" },
  { "info", "version, instruction set, threads, libraries, devices; --devices:"
    .. "\n" .. (" "):rep(25) .. "profiles to plan for, --measure: this machine's" },
  { "launch script.lua", "run it as local ranks; -n N --restarts N --grace S" },
  { "merge FOLDER ADAPTER", "put an adapter into a model's weights: --out FOLDER" },
  { "plan script.lua", "plan its first compiled step, and stop there; options"
    .. "\n" .. (" "):rep(25) .. "--json --budget BYTES --html FILE --device NAME"
    .. "\n" .. (" "):rep(25) .. "--largest FLAG --lock FILE --check FILE"
    .. "\n" .. (" "):rep(25) .. "--ranks N --policy FILE --shard NAME; of the last two"
    .. "\n" .. (" "):rep(25) .. "several are compared" },
}

return function()
  io.write(text, "\n")
  for _, command in ipairs(commands) do
    print(string.format("mrt %-20s %s", command[1], command[2]))
  end
end
