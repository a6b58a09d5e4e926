-- death_spec.lua -- a rank that dies in the midst of training: all others are told its name
-- in time, over every engine, and fewer ranks go on from the last snapshot
local core = require "mrt.core"
local files = require "support.files"
local program = require "support.program"

-- Rank 1 is killed some time after the third step, wherever it is by then.
local dying = files.temporary [[
  local mrt = require "mrt"
  local comm = mrt.communicator.create { timeout = 5 }
  local run = mrt.train.run
  mrt.train.run = function(o)
    local shown = o.on_step
    o.on_step = function(now)
      shown(now)
      if comm.rank == 1 and now.step == 3 then os.execute "(sleep 0.3; kill -9 $PPID) &" end
    end
    return run(o)
  end
  dofile "examples/launch/train.lua"]]

local TRAIN <const> = "examples/launch/train.lua"
local ways <const> = { "data", "pipeline", "tensor" }

-- What is printed when one of three, whom `start` starts, dies; seconds.
local function die(start, way, folder)
  local began = core.clock()
  local _, out = program.shell(("MRT_THREADS=1 timeout -k 1 60 env %s '%s' --way %s --steps 9999 "
    .. "--snapshots %s"):format(start, dying, way, folder))
  return out, core.clock() - began
end

-- The last step that was saved whole.
local function last_step(folder)
  local last = 0
  for _, name in ipairs(core.list_folder(folder)) do
    last = math.max(last, tonumber(name:match "^step%-(%d+)%.safetensors$" or 0))
  end
  return last
end

local function two_go_on(way, folder)
  local code, out = program.run(("launch -n 2 --no-prefix %s --way %s --steps %d --snapshots %s")
    :format(TRAIN, way, last_step(folder) + 2, folder))
  assert.equal(0, code, out)
  assert.matches("going on from step %d+ of", out)
  assert.matches(way .. ": 2 ranks", out)
end

describe("#process a rank that dies in training", function()
  for _, engine in ipairs { "shared", "sockets" } do
    for _, way in ipairs(ways) do
      it(("is named to all, who go on without it: %s, %s"):format(engine, way), function()
        local folder = files.name()
        local out, seconds = die(("MRT_TRANSPORT=%s '%s' launch -n 3"):format(engine,
          program.path), way, folder)
        for _, r in ipairs { 0, 2 } do
          assert.matches(("\n%%[%d%%] mrt: [^\n]*rank 1 %%(pid %%d+ on %%g+%%) [id][si]"):format(r),
            out)
        end
        assert.is_true(seconds < 20, seconds .. " s")
        two_go_on(way, folder)
      end)
    end
  end

  -- mpirun ends the others at once, and names the one; told to let them live, it shows what
  -- they hear: MPI itself says nothing of a rank that is gone, the deadline does.
  local plugin = program.path:match "^(.*/)" .. "lib/libmrt_mpi.so"
  local missing = program.shell "command -v mpirun" ~= 0 and "there is no mpirun"
    or not core.read_file(plugin) and "the MPI plug-in is not built"
  local mpirun = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun "
    .. "--oversubscribe --bind-to none"

  for _, way in ipairs(ways) do
    it(("is named to all, who go on without it: mpi, %s"):format(way), function()
      if missing then return pending(missing) end
      local folder = files.name()
      local out, seconds = die(("MRT_TRANSPORT=mpi %s --enable-recovery -n 3 '%s'"):format(mpirun,
        program.path), way, folder)
      -- itself, or it "holds up" one that did not
      local said <const> = "mrt: [^\n]*rank 1 %(pid %d+ on %g+%) [^\n]*did not [^\n]* within 5 s"
      local _, told = out:gsub(said, "")
      assert.equal(2, told, out)
      assert.is_true(seconds < 30, seconds .. " s")
      two_go_on(way, folder)
    end)
  end

  it("is named by mpirun, which ends the others", function()
    if missing then return pending(missing) end
    local out, seconds = die(("MRT_TRANSPORT=mpi %s -n 3 '%s'"):format(mpirun, program.path),
      "pipeline", files.name())
    assert.matches("process rank 1 [^\n]*exited on signal 9", out)
    assert.is_true(seconds < 20, seconds .. " s")
  end)
end)
