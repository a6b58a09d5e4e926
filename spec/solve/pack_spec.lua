-- pack_spec.lua -- offsets for lifetimes: core.pack and `mrt bench packing`

local check = require "bench.packing.check"
local files = require "support.files"
local core = require "mrt.core"
local program = require "support.program"
local puzzles = require "bench.packing.puzzles"

local seed = 1
local function random(n) -- 1..n, the same everywhere
  seed = (seed * 6364136223846793005 + 1442695040888963407) & math.maxinteger
  return (seed >> 33) % n + 1
end

local function random_items(n, time, longest, largest)
  local items = {}
  for i = 1, n do
    local first = random(time)
    items[i] = { random(largest), first, first + random(longest) - 1, 1 << (random(4) - 1) }
  end
  return items
end

local function shuffled(items)
  local list = table.move(items, 1, #items, 1, {})
  for i = #list, 2, -1 do
    local k = random(i)
    list[i], list[k] = list[k], list[i]
  end
  return list
end

--- The largest sum of sizes alive at once, slowly.
local function bound_of(items)
  local most = 0
  for _, at in ipairs(items) do
    local sum = 0
    for _, other in ipairs(items) do
      if other[2] <= at[2] and at[2] <= other[3] then sum = sum + other[1] end
    end
    most = math.max(most, sum)
  end
  return most
end

--- Does any pair meet in time and in space?  Slowly, by the definition.
local function clash(items, offsets)
  for i, a in ipairs(items) do
    for k = 1, i - 1 do
      local b = items[k]
      if a[2] <= b[3] and b[2] <= a[3] and offsets[i] < offsets[k] + b[1]
        and offsets[k] < offsets[i] + a[1] then
        return true
      end
    end
  end
  return false
end

--- Cut [first, last] x height into n rectangles, so the optimum is `height`.
local function cut_rectangle(n, time, height)
  local pieces = { { height, 1, time } }
  while #pieces < n do
    local p, q = pieces[random(#pieces)], nil
    for _ = 1, 3 do -- rather a large one
      local other = pieces[random(#pieces)]
      if other[1] * (other[3] - other[2]) > p[1] * (p[3] - p[2]) then p = other end
    end
    if random(2) == 1 and p[1] > 1 then
      local size = random(p[1] - 1)
      q = { p[1] - size, p[2], p[3] }
      p[1] = size
    elseif p[3] > p[2] then
      local middle = p[2] + random(p[3] - p[2]) - 1
      q = { p[1], middle + 1, p[3] }
      p[3] = middle
    end
    pieces[#pieces + 1] = q
  end
  return pieces
end

describe("core.pack", function()
  it("packs random items without overlap, at least at the bound", function()
    for trial = 1, 25 do
      local items = random_items(random(50), 60, 1 + random(30), 1000)
      local r = core.pack(items)
      assert.equal(#items, #r.offsets)
      assert.is_false(clash(items, r.offsets))
      assert.is_nil(check(items, r.offsets, r.height))
      assert.equal(bound_of(items), r.bound)
      assert(r.height >= r.bound, "trial " .. trial)
    end
  end)

  it("gives permuted items the same height", function()
    for _ = 1, 4 do
      local items = random_items(40, 40, 20, 100)
      local r = core.pack(items)
      local again = core.pack(shuffled(items))
      assert.equal(r.height, again.height)
      assert.equal(r.nodes, again.nodes)
    end
  end)

  it("finds the optimum of a rectangle cut to pieces", function()
    for n = 10, 120, 10 do
      local items = shuffled(cut_rectangle(n, 1000, 1 << 20))
      local r = core.pack(items)
      assert.equal(1 << 20, r.bound)
      assert.equal(1 << 20, r.height)
      assert.is_true(r.proven)
      assert.is_nil(check(items, r.offsets, r.height))
    end
  end)

  it("solves puzzles of every style", function()
    for _, style in ipairs(puzzles.names) do
      for n = 20, 140, 40 do
        local items, optimum = puzzles.make(style, n, n)
        local r = core.pack(items)
        assert.equal(optimum, bound_of(items))
        assert.equal(optimum, r.height, style .. " " .. n)
        assert.is_true(r.proven)
        assert.is_nil(check(items, r.offsets, r.height))
      end
    end
  end)

  it("calls no height proven that is not the lowest", function()
    for number = 1, 12 do
      local items, optimum = puzzles.make("cloud", 60 + number, number)
      local r = core.pack(items)
      assert(not r.proven or r.height == optimum)
    end
  end)

  it("proves heights above the bound", function()
    local r = core.pack { { 3, 0, 1, 4 }, { 3, 0, 1, 4 } }
    assert.equal(6, r.bound)
    assert.equal(7, r.height)
    assert.is_true(r.proven)
  end)

  it("is as low as the best of all first-fit orders, and says so", function()
    local function lowest(items, offsets, placed, height, best)
      if height >= best then return best end
      if placed == #items then return height end
      for i, item in ipairs(items) do
        if not offsets[i] then
          local at, moved = 0, true
          while moved do
            moved = false
            for k, other in ipairs(items) do
              if offsets[k] and item[2] <= other[3] and other[2] <= item[3]
                and at < offsets[k] + other[1] and offsets[k] < at + item[1] then
                at, moved = offsets[k] + other[1], true
                at = (at + item[4] - 1) // item[4] * item[4]
              end
            end
          end
          offsets[i] = at
          best = lowest(items, offsets, placed + 1, math.max(height, at + item[1]), best)
          offsets[i] = nil
        end
      end
      return best
    end
    for _ = 1, 60 do
      local items = random_items(6, 8, 6, 12)
      local r = core.pack(items)
      assert.equal(lowest(items, {}, 0, 0, math.huge), r.height)
      assert.is_true(r.proven)
    end
  end)

  it("ends at once when a capacity is met", function()
    local items = random_items(200, 100, 50, 100)
    local r = core.pack(items, { capacity = 1 << 40 })
    assert.equal(0, r.nodes)
    assert.is_nil(check(items, r.offsets, r.height))
  end)

  it("takes items of no size, none, and equal ones", function()
    assert.same({ height = 0, bound = 0, nodes = 0, proven = true, offsets = {} }, core.pack {})
    local r = core.pack { { 0, 1, 5 }, { 7, -3, 2 }, { 7, -3, 2 } }
    assert.equal(14, r.height)
    assert.equal(0, r.offsets[1])
    assert.is_true(r.proven)
  end)

  it("refuses what is no item", function()
    local function refused(items, text)
      local ok, err = pcall(core.pack, items)
      assert.is_false(ok)
      assert.matches(text, tostring(err))
    end
    refused({ { 8, 5, 4 } }, "buffer 1 ends at 4, before it begins at 5")
    refused({ { -1, 0, 1 } }, "buffer 1: its size is %-1")
    refused({ { 1, 0 } }, "buffer 1: its last time is")
    refused({ 3 }, "buffer 1 is 3")
    refused({ { 1, 0, 1, 0 } }, "alignment is 0")
    refused({ { math.maxinteger, 0, 1 } }, "62 bits")
  end)

  it("packs thousands in time #long", function()
    local items = random_items(5000, 5000, 200, 4096)
    local r = core.pack(items)
    assert.is_nil(check(items, r.offsets, r.height))
    assert(r.height <= 1.1 * r.bound)
  end)
end)

describe("the check of packings", function()
  it("finds what overlaps, along either axis", function()
    assert.is_nil(check({ { 4, 0, 5 }, { 4, 6, 9 } }, { 0, 0 }, 4))
    assert.matches("overlap", check({ { 4, 0, 5 }, { 4, 5, 9 } }, { 0, 0 }, 4))
    assert.matches("overlap", check({ { 4, 0, 5 }, { 4, 0, 5 } }, { 0, 3 }, 7))
    assert.matches("outside", check({ { 4, 0, 5 } }, { 1 }, 4))
    assert.matches("aligned", check({ { 4, 0, 5, 4 } }, { 2 }, 8))
    for _ = 1, 200 do
      local items = random_items(6, 12, 6, 10)
      local offsets = {}
      for i = 1, 6 do offsets[i] = 8 * random(10) end
      assert.equal(clash(items, offsets), check(items, offsets, 1000) ~= nil)
    end
  end)
end)

describe("mrt bench packing", function()
  local folder

  before_each(function()
    folder = files.folder()
  end)

  local function bench(name, text)
    files.write(folder .. "/" .. name, text)
    return program.run("bench packing " .. folder)
  end

  it("reads exclusive and inclusive ends", function()
    local code, output = bench("x.8.csv", "id,lower,upper,size\na,0,2,8\nb,2,4,8\n")
    assert.equal(0, code)
    assert.matches("x%.8 +2 +8 +8 +1%.0000 +yes +yes", output)
    code, output = bench("x.8.csv", "id,start,end,size\r\na,0,2,8\r\nb,2,4,8\r\n")
    assert.equal(0, code)
    assert.matches("x%.8 +2 +16 +16 +1%.0000 +NO +yes", output)
  end)

  it("reads alignments and gaps", function()
    local code, output = bench("y.csv", "id,lower,upper,size,alignment,gaps\n"
      .. "a,0,9,3,,\nb,0,9,3,4,2-3 5-6@0:2\n")
    assert.equal(0, code)
    assert.matches("y +2 +6 +6", output)
  end)

  it("says what is wrong with a file, and where", function()
    local function wrong(text, message)
      local code, output = bench("z.csv", text)
      assert.equal(1, code)
      assert.matches(message, output)
    end
    local head = "id,lower,upper,size\n"
    wrong("", "z.csv: empty")
    wrong("a,b\n", "z.csv:1: 'a' is no column")
    wrong("id,lower,size\n", "z.csv:1: the header must be")
    wrong("id,id,lower,upper,size\n", "column 'id' is there twice")
    wrong(head .. "1,2,3\n", "z.csv:2: 3 fields, the header has 4")
    wrong(head .. "1,2,3,x\n", "z.csv:2: size 'x' is no integer")
    wrong(head .. "1,2,3,1.5\n", "size '1.5' is no integer")
    wrong(head .. "1,2,3,4\n1,3,2,4\n", "z.csv:3: it ends before it begins")
    wrong(head .. "1,3,3,4\n", "z.csv:2: it ends where it begins, at 3")
    wrong(head .. "1,2,99999999999999999999,4\n", "upper '9+' is no integer")
    wrong(head .. "1,2,3,9000000000000000000\n", "z.csv: .*62 bits")
    wrong(head .. "1,2,nan,4\n", "upper 'nan' is no integer")
    wrong(head .. "1,2,0x10,4\n", "upper '0x10' is no integer")
    wrong("id,lower,upper,size,gaps\n1,2,9,4,8-3\n", "gap '8%-3' is not within 2 to 9")
    wrong(head .. "1,2,3,-4\n", "size %-4 is negative")
    wrong("id,lower,upper,size,alignment\n1,2,3,4,0\n", "alignment 0 is not positive")
    wrong("id,lower,upper,size,gaps\n1,2,3,4,5\n", "gap '5' is not a%-b")
  end)

  it("wants a folder with instances", function()
    local code, output = program.run("bench packing " .. folder .. "/none")
    assert.equal(1, code)
    assert.matches("no %.csv files there", output)
  end)
end)
