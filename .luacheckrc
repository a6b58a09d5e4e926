std = "lua54"
max_line_length = 100
max_cyclomatic_complexity = 12
include_files = { "lua", "spec", "examples", "bench" }
-- the prompt's own variables, as lua has them
files["lua/mrt/repl.lua"] = { globals = { "_", "_G._", "_PROMPT", "_PROMPT2" } }
files["spec"] = { std = "+busted" }
