--- make.lua -- the pictures of the manual's gallery
---
---     mrt manual/pictures/make.lua [NAME]...
---
--- Run at the project's root; NAME is one of those below, by default all,
--- which takes some minutes.  What is drawn is planned or trained here, so files change
--- where plans do.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local FOLDER <const> = "manual/pictures/"

local pictures = {}

local function run(script, out)
  assert(os.execute(("'%s' examples/%s.lua --out %s%s.svg"):format(arg[-1], script, FOLDER, out)))
end

function pictures.sublinear() run("sublinear", "sublinear") end

function pictures.memory_schemes() run("memory_schemes", "memory_schemes") end

--- One training step in all the memory that it can use, in two thirds, in a half.
function pictures.budgets()
  mrt.seed(1)
  local gpt = nn.GPT { vocab = 65, dim = 64, layers = 4, heads = 4, context = 64 }
  local opt = optim.adamw(gpt:parameters(), { lr = 1e-3 })
  local tokens, targets = mrt.randint(0, 65, 8, 64), mrt.randint(0, 65, 8, 64)
  local step = mrt.compile(function(x, y)
    local loss = nn.cross_entropy(gpt(x), y)
    opt:step(mrt.grad(loss, gpt:parameters()))
    return loss
  end, { swap = policy.swap.none() })
  local all = step:plan(tokens, targets)
  local function within(part)
    return step:with { memory = math.floor(all.peak * part) }:plan(tokens, targets)
  end
  assert(mrt.plan.compare({ all, within(2 / 3), within(1 / 2),
    names = { "all kept", "two thirds", "half" } }):save(FOLDER .. "budgets.svg"))
end

-- The program that is a page's listings from a heading on, a number in it changed, and what
-- it returns at its end.
local function program_of(page, heading, last, change)
  local file <close> = assert(io.open("manual/" .. page))
  local parts, text = {}, file:read "a"
  for listing in text:sub((text:find(heading, 1, true))):gmatch "\n```lua\n(.-\n)```" do
    parts[#parts + 1] = listing
  end
  local code = table.concat(parts):gsub(change[1], change[2])
  return assert(load(code .. last, "@" .. page, "t",
    setmetatable({ mrt = mrt, nn = nn, optim = optim, print = function() end }, { __index = _G })))
end

--- What the diffusion model of the second page of programs draws, trained for longer.
function pictures.moons()
  mrt.seed(2)
  local points = program_of("05-more-programs.md", "## A diffusion", "return x:totable()",
    { "800", "4000" })()
  local out = { '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 -1.5 4 3" width="480" '
    .. 'height="360"><title>500 points from noise</title>\n<g fill="#0072b2" fill-opacity=".6">' }
  for _, p in ipairs(points) do
    out[#out + 1] = ('<circle cx="%.2f" cy="%.2f" r=".02"/>'):format(p[1], -p[2])
  end
  local file <close> = assert(io.open(FOLDER .. "moons.svg", "w"))
  file:write(table.concat(out, "\n"), "\n</g></svg>\n")
end

local names = {}
for name in pairs(pictures) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(#arg > 0 and arg or names) do
  pictures[name]()
  print(FOLDER .. name .. ".svg")
end
