std = "lua54"
self = false -- a method may do without it
max_line_length = 100
max_cyclomatic_complexity = 12
include_files = { "lua/**/*.lua", "spec/**/*.lua", "examples/*.lua", "scripts/gpu/*.lua" }
ignore = { "581" } -- not (x <= y) holds for NaN as well
-- the prompt's own variables, as lua has them
files["lua/mrt/cli/repl/init.lua"] = { globals = { "_", "_G._", "_PROMPT", "_PROMPT2" } }
files["spec"] = { std = "+busted", max_cyclomatic_complexity = false }
files["lua/mrt/tensor/operators.lua"] = { ignore = { "212", "241", "631" } } -- declarations
files["lua/mrt/tensor/made.lua"] = { ignore = { "212", "241", "631" } }
files["lua/mrt/nn/made.lua"] = { ignore = { "212", "241", "631" } }
