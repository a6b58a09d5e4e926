--- html.lua -- a plan as one self-contained page
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local data_of = require "mrt.plan.report.timeline_data"
local embed = require "mrt.plan.report.embed"
local format = require "mrt.util.format"
local front = require "mrt.plan.report.front"
local lanes = require "mrt.plan.report.lanes"
local markup = require "mrt.plan.report.markup"
local pool = require "mrt.plan.caching_allocator"
local roles = require "mrt.plan.report.roles"
local svg = require "mrt.plan.report.svg"

local SHOWN = 40 -- rows of the table of what is alive
local WAITING = 12 -- of the table of copies that stall

local escape = markup.escape

local function number(n) return ('<td class="n">%s</td>'):format(n) end

local function row(out, name, bytes, words)
  out[#out + 1] = ('<tr><td class="k">%s</td>%s%s<td>%s</td></tr>'):format(name,
    number(format.bytes(bytes)), number(format.count(bytes)), words or "")
end

local function totals(out, plan)
  local dynamic = pool.simulate(plan)
  out[#out + 1] = "<table>"
  row(out, "<b>peak</b>", plan.peak, "what a run takes, to the byte")
  row(out, "persistent", plan.persistent, "variables and constants")
  if plan.micro_batches then
    row(out, "accumulators", plan.accumulators,
      ("of these; %d micro-batches of %d rows, of a batch of %d"):format(
        plan.micro_batches, plan.micro_batch, plan.batch))
  end
  row(out, "transient", plan.transient, "the arena")
  if (plan.gathered or 0) > 0 then
    row(out, "gathered", plan.gathered, "of these, once for all micro-batches")
  end
  row(out, "outputs", plan.outputs, "what a run returns")
  row(out, "lower bound", plan.lower_bound,
    ("peak is %.3f of it"):format(plan.lower_bound > 0
      and plan.peak / plan.lower_bound or 1))
  row(out, "any order", plan.order_free_bound,
    "no order of these steps takes less")
  row(out, "working set", plan.working_set,
    "the largest step alone, and what persists")
  row(out, "inputs", plan.inputs, "the caller&#39;s, not in peak")
  row(out, "caching pool", dynamic.reserved,
    ("in place of the arena: %s wasted, %s calls, %d segments"):format(
      format.bytes(dynamic.wasted), format.count(dynamic.calls),
      dynamic.segments))
  if plan.collectives > 0 then
    row(out, "wire", math.ceil(plan.wire), ("given to other ranks in %d collectives")
      :format(plan.collectives))
  end
  if plan.swapped > 0 then
    row(out, "swap tier", plan.swapped, "what is swapped, not in peak")
    row(out, "a step", plan.copied_out, ("to %s, and %s back"):format(about.tier(),
      format.bytes(plan.copied_in)))
  end
  if plan.hosted > 0 then
    row(out, "staging", plan.staging, ("of the host, for %d of %d nodes that the CPU "
      .. "computes; not in peak"):format(plan.hosted, plan.nodes))
  end
  out[#out + 1] = ('<tr><td class="k">step time</td><td class="n">%s</td><td></td>'
    .. "<td>predicted for %s%s</td></tr></table>"):format(format.time(plan.seconds),
      escape(plan.device.name) .. about.unlinked(plan), plan.stall > 0
        and (", %s of it waiting for copies"):format(format.time(plan.stall)) or "")
end

-- The peak as one bar, and its legend as a table.
local function composition(out, plan, values)
  local sums, x, bar, list = roles.sums(values, plan.peak_step), 0, {}, {}
  for _, role in ipairs(roles.order) do
    local bytes = not roles.outside[role] and sums[role]
    if bytes and bytes > 0 then
      local wide = 1080 * bytes / math.max(plan.peak, 1)
      bar[#bar + 1] = ('<rect class="block" x="%.2f" width="%.2f" height="28" '
        .. 'fill="%s"><title>%s %s</title></rect>'):format(x, wide,
          markup.colours[role], roles.words[role], format.bytes(bytes))
      row(list, ('<i style="background:%s"></i>%s'):format(markup.colours[role],
        roles.words[role]), bytes, ("%.1f %%"):format(100 * bytes / plan.peak))
      x = x + wide
    end
  end
  out[#out + 1] = "<h2>What the peak is made of</h2>"
    .. '<div class="whole">' .. markup.svg(1080, 28, bar):gsub("<svg ",
      '<svg preserveAspectRatio="none" ', 1) .. "</div><table>" .. table.concat(list) .. "</table>"
end

local function step_line(s, i)
  return ("step %d, %s%s, <code>%s</code>"):format(i, escape(s.op),
    s.backward and " (gradient)" or "",
    escape(format.shorten(about.place(s), 60, true)))
end

local function peaks(out, plan, steps)
  local top = steps[plan.peak_step]
  if not top then return end
  local text = "<p>The peak is at " .. step_line(top, plan.peak_step)
  local other = about.next_peak(steps, plan.peak_step)
  if other then
    local less = top.live - steps[other].live
    text = text .. ("; %s at %s"):format(less == 0 and "another as high"
      or ("the next lower, by %s,"):format(format.bytes(less)),
      step_line(steps[other], other))
  end
  out[#out + 1] = text .. ".</p>"
end

local function survivors(out, plan, values)
  local list = about.alive(values, plan.peak_step)
  if #list == 0 then return end
  out[#out + 1] = "<h2>The largest values alive at the peak</h2><table><tr>"
    .. '<th class="n">bytes</th><th class="n"></th><th>kind</th><th>what</th>'
    .. "<th>type</th><th>line</th></tr>"
  for i = 1, math.min(SHOWN, #list) do
    local g = list[i]
    out[#out + 1] = ('<tr>%s%s<td class="k"><i style="background:%s"></i>%s</td><td>%s'
      .. '</td><td class="k">%s</td><td class="k"><code>%s</code></td></tr>')
      :format(number(format.bytes(g.bytes)),
        number(g.count > 1 and "&times; " .. g.count or ""),
        markup.colours[g.role], g.role, escape(format.shorten(g.what, 120)), escape(g.type),
        escape(format.shorten(g.place, 60, true)))
  end
  out[#out + 1] = "</table>"
  if #list > SHOWN then
    out[#out + 1] = ("<p>and %d kinds more</p>"):format(#list - SHOWN)
  end
end

-- The copies that the run waits for.
local function stalls(out, plan, values)
  local list = lanes.stalls(lanes.list(plan, values))
  if #list == 0 then return end
  out[#out + 1] = "<h2>The longest predicted stalls</h2><table><tr>"
    .. '<th class="n">stall</th><th>lane</th><th class="n">bytes</th><th>what</th>'
    .. "<th>the copy, and the steps beside it</th><th>steps</th></tr>"
  for i = 1, math.min(WAITING, #list) do
    local t = list[i]
    out[#out + 1] = ('<tr>%s<td>%s</td>%s<td>%s</td><td>%s</td><td class="k">'
      .. "%d to %d</td></tr>"):format(number(format.time(t.stall)), t.lane,
        number(format.bytes(t.bytes)), escape(format.shorten(t.what, 60)),
        escape(lanes.compare(t)), t.start, t.wait)
  end
  out[#out + 1] = "</table>"
  if #list > WAITING then
    out[#out + 1] = ("<p>and %d more</p>"):format(#list - WAITING)
  end
end

-- The picture, which the page's program replaces by one that answers.
local function timeline(out, plan, values, steps)
  out[#out + 1] = "<h2>One run, step by step</h2>"
  peaks(out, plan, steps)
  out[#out + 1] = ('<div class="wide" id="timeline">%s</div>'):format(svg(plan, { plain = true }))
  if plan.transient == 0 then return end
  out[#out + 1] = embed.data("plan-data", data_of(plan, values, steps))
end

---@param plan mrt.Plan
---@param o? {front: boolean?}  false: without what other budgets would cost, which takes
---  plans of its own
---@return string
return function(plan, o)
  local out, values, steps = {}, plan:values(), plan:steps()
  local title = "Plan" .. (plan.title and " of " .. plan.title or "")
  out[1] = ("<h1>%s: %s</h1>"):format(escape(title), format.bytes(plan.peak))
  totals(out, plan)
  composition(out, plan, values)
  timeline(out, plan, values, steps)
  local section, any = "", false
  if not o or o.front ~= false then section, any = front(plan) end
  out[#out + 1] = section
  survivors(out, plan, values)
  stalls(out, plan, values)
  if plan.transient > 0 then
    out[#out + 1] = any and embed.script("common", { "timeline", "select" }, "plot", { "front" })
      or embed.script("common", { "timeline", "select" })
  end
  return markup.page(title, table.concat(out, "\n"))
end
