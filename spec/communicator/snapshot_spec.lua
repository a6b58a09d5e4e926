-- snapshot_spec.lua -- a part that fails on one rank fails on all, at once
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local clock = require "mrt.core".clock

describe("a snapshot of ranks", function()
  local folder

  before_each(function() folder = files.name() end)

  -- What each rank of three says that runs `code`, which sees the snapshots, `w` (a
  -- variable that begins as 1, 1) and `part`, with a plain value, that can be told to raise.
  local function run(code)
    local began = clock()
    local results, failures = mrt.communicator.ranks(3, ([[
      local mrt, comm = ...
      local core = require "mrt.core"
      local w = mrt.variable(mrt.ones(2))
      local part = { count = comm.rank }
      local function fall(name)
        if part.fails == name then core.fail("value", "part", name .. " of this one") end
      end
      function part:state() fall "state" return { w = w, count = self.count } end
      function part:expect_state() fall "expect_state" end
      function part:load_state(s) fall "load_state" self.count = s.count end
      local snapshots = mrt.train.snapshots { folder = "%s", parts = { part = part } }
      local function try(name, ...)
        local ok, what = pcall(snapshots[name], snapshots, ...)
        return (ok and "" or "raised ") .. tostring(what)
      end
      %s
    ]]):format(folder, code), { timeout = 200 })
    assert(not failures, failures and select(2, next(failures)))
    assert.is_true(clock() - began < 100) -- nobody waited in vain, however busy the machine
    return results
  end

  it("is not written where a part's state raises on one rank", function()
    for rank, said in ipairs(run [[
      if comm.rank == 1 then part.fails = "state" end
      local first = try("save", 4)
      part.fails = nil
      return first .. "; " .. try("resume")
    ]]) do
      assert.matches("^raised .*rank 1: .*part: state of this one[^;]*; 0$", said,
        1, "rank " .. rank - 1)
    end
  end)

  it("changes nothing where it is refused on one rank", function()
    for _, name in ipairs { "state", "expect_state" } do
      for _, said in ipairs(run(([[
        assert(snapshots:save(4))
        w:assign(w + 1)
        part.count = 7
        if comm.rank == 2 then part.fails = "%s" end
        local first = try("resume")
        part.fails = nil
        return ("%%s; %%g %%d; %%s"):format(first, w:sum():item(), part.count,
          try("save", 5):match "step%%-%%d+")
      ]]):format(name)) ) do
        assert.matches("^raised .*rank 2: .*part: " .. name
          .. " of this one[^;]*; 4 7; step%-00000005$", said)
      end
    end
  end)

  it("says on all ranks what load_state raised on one, and is not saved then", function()
    for rank, said in ipairs(run [[
      assert(snapshots:save(4))
      w:assign(w + 1)
      part.count = 7
      if comm.rank == 1 then part.fails = "load_state" end
      local first = try("resume")
      local state = ("%g %d"):format(w:sum():item(), part.count)
      part.fails = nil
      local saved = try("save", 5)
      return ("%s; %s; %s; %s; %d; %s"):format(first, state, saved, try("resume"),
        part.count, try("save", 5):match "step%-%d+")
    ]]) do
      local own = rank - 1
      -- variables are those of the snapshot, and so are plain values but for the one's
      assert.matches(("^raised .*rank 1: .*part: load_state of this one[^;]*; 2 %d; "
        .. "raised .*between two states[^;]*load_state of this one[^;]*; 4; %d; step%%-00000005$")
        :format(own == 1 and 7 or own, own), said)
    end
  end)

  it("raises what all ranks say once", function()
    for _, said in ipairs(run [[
      part.fails = "state"
      return try("save", 4)
    ]]) do
      assert.matches("part: state of this one", said)
      assert.falsy(said:find("rank ", 1, true), said)
    end
  end)

  it("leaves no file of pieces open where it is refused on one rank", function()
    for _, said in ipairs(run [[
      local nn, optim = mrt.nn, mrt.optim
      local model = nn.Linear(8, 8)
      local opt = optim.adamw(model:parameters(), { lr = 0.1 })
      mrt.compile(function(x)
        local loss = model(x):mean()
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, { shard = mrt.policy.shard.zero(1) })(mrt.ones(2, 8)):item()
      snapshots = mrt.train.snapshots { folder = snapshots.folder,
        parts = { part = part, optimizer = opt } }
      assert(snapshots:save(4))
      part.fails = comm.rank == 1 and "expect_state"
      collectgarbage()
      collectgarbage "stop"
      comm:barrier()
      -- one rank counts for the process: to count opens a file
      local function count()
        local n = comm.rank == 0 and #core.list_folder "/proc/self/fd" or 0
        comm:barrier()
        return n
      end
      local before = count()
      local said = try("load", snapshots.folder .. "/step-00000004.safetensors")
      comm:barrier()
      local after = count()
      collectgarbage "restart"
      part.fails = nil
      return ("%s; %d; %s"):format(said, after - before, try("resume"))
    ]]) do
      assert.matches("^raised .*rank 1: .*expect_state of this one[^;]*; 0; 4$", said)
    end
  end)

  it("is passed over where one rank cannot read it", function()
    local results = run [[
      assert(snapshots:save(4))
      comm:barrier()
      local opened = mrt.load
      if comm.rank == 2 then mrt.load = function(path)
        if path:find "04" then return nil, "no such disk" end
        return opened(path)
      end end
      local done, message = snapshots:resume()
      return ("%s %s"):format(done, message)
    ]]
    for _, said in ipairs(results) do assert.equal("nil rank 2: no such disk", said) end
  end)
end)
