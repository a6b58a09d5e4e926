--- report.lua -- `mrt report RUN...`: the page of one run, or of several side by side.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"

local function run(args)
  local train = require "mrt.train"
  local given, alone = args.run, #args.run == 1 and not args.out
  given.to = args.out
  local path, message = train.report(alone and given[1] or given)
  if not path then
    io.stderr:write("mrt report: ", message, "\n")
    return 1
  end
  print(path)
end

return arguments.new {
  name = "mrt report",
  about = "Draw the logs of training runs into one page.",
  { "RUN...", "folders of logs: the option `log` of mrt.train.run, or log/ of mrt finetune" },
  { "--out FILE.html", "the page; else RUN/report.html of one run, report.html of several" },
  run = run,
}
