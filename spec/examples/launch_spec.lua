-- launch_spec.lua -- the files of examples/launch, between two network namespaces
local program = require "support.program"

describe("#process examples/launch", function()
  local _, list = program.shell "scripts/two_hosts --list"
  local refused = program.shell(([[MRT='%s' scripts/two_hosts --shell true]]):format(program.path))
    ~= 0
  for _, launcher in ipairs { "mpirun", "torchrun", "slurm", "slurm-tcp", "kubernetes" } do
    it(("trains as one rank does, started by %s #long"):format(launcher), function()
      if refused then return pending "network namespaces cannot be made here" end
      if not ("\n" .. list):find("\n" .. launcher .. "\n", 1, true) then
        return pending(launcher .. " is not installed")
      end
      local code, out = program.shell(("MRT='%s' timeout -k 5 120 scripts/two_hosts %s"):format(
        program.path, launcher))
      assert.equal(0, code, out)
      local by = (launcher == "mpirun" or launcher == "slurm") and "mpi" or "sockets"
      for _, way in ipairs { "data", "pipeline" } do
        assert.matches(("%s: 2 ranks, %s, losses of one rank"):format(way, by), out)
      end
      assert.equal(by == "sockets", out:find("mrt's own TCP mesh", 1, true) ~= nil)
    end)
  end
end)
