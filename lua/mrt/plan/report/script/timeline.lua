--- timeline.lua -- a plan that answers, in JavaScript: live bytes, arena, copies over time
---
--- What is drawn and what hits the pointer; select.lua says what is chosen, and listens.
--- The data are those of timeline_data.lua.
---
--- SPDX-License-Identifier: MIT

return [==[
const D = read("plan-data"), B = D.buffers, S = D.steps, X = D.transfers
const steps = S.live.length, buffers = B.bytes.length, text = i => i < 0 ? "" : D.text[i]
const LEFT = 74, LANE = 12
const view = { from: 0, to: steps }      // in steps, from 0
let chosen = -1, chosenStep = 0, wanted = "" // a buffer, a step, words to look for

const place = find("timeline")
const canvasOf = (height, label) => el("canvas", { tabindex: 0, role: "application",
  "aria-label": label, style: `height:${height}px` })
const keys = ". Arrow keys move, plus and minus zoom, 0 shows all, p goes to the peak; "
  + "comma and full stop choose a buffer, Escape none."
const live = canvasOf(190, "Bytes alive over the steps of a run" + keys)
const arena = canvasOf(360, "The arena: offset against time" + keys)
const rows = [0, 1].map(out => 1 + Math.max(-1, ...X.row.filter((_, i) => X.out[i] === out)))
const laneHeight = LANE * Math.max(rows[0] + rows[1], 1) + 30
const lanes = X.out.length ? canvasOf(Math.min(laneHeight, 300), "Copies to and from the swap tier"
  + keys) : null
const where = el("output", { class: "where" })

// Bytes alive at each step by role, stacked.
const stacks = D.roles.map(() => new Float64Array(steps + 2))
for (let i = 0; i < buffers; i++) {
  stacks[B.role[i]][B.first[i]] += B.bytes[i]
  stacks[B.role[i]][B.last[i] + 1] -= B.bytes[i]
}
for (const s of stacks) for (let i = 1; i <= steps; i++) s[i] += s[i - 1]
const total = new Float64Array(steps + 1)
for (const s of stacks) for (let i = 1; i <= steps; i++) total[i] += s[i]

const wide = w => w - LEFT - 4
const xOf = (step, w) => LEFT + (step - view.from) / (view.to - view.from) * wide(w)
const stepAt = (x, w) => view.from + (x - LEFT) / wide(w) * (view.to - view.from)

function marks(most) {
  let step = 64
  while (most / step > 5) step *= 2
  const list = []
  for (let n = 0; n <= most; n += step) list.push(n)
  return list
}

function axes(g, w, h, colours) {
  g.lineWidth = 1
  g.textAlign = "right"
  for (const n of marks(D.arena)) {
    const y = Math.round((h - 20) * (1 - n / D.arena)) + 0.5
    g.fillStyle = colours.faint
    g.fillRect(LEFT, y, wide(w), 1)
    g.fillStyle = colours.text
    g.fillText(bytesText(n), LEFT - 6, clamp(y + 4, 11, h))
  }
  numbers(g, w, h, colours)
}

function numbers(g, w, h, colours) {
  const span = view.to - view.from, each = Math.max(1, span / Math.max(wide(w) / 70, 1))
  const power = 10 ** Math.floor(Math.log10(each))
  const by = [1, 2, 5, 10].map(k => k * power).find(k => k >= each)
  g.textAlign = "center"
  g.fillStyle = colours.text
  for (let s = Math.ceil(Math.max(view.from + 0.5, 1) / by) * by; s <= view.to + 0.5; s += by)
    if (s >= 1 && s <= steps) g.fillText(countText(s), clamp(xOf(s - 0.5, w), LEFT, w - 22), h - 5)
}

// A line down the middle of a step.
function upright(g, w, h, step, colour, dash) {
  const x = Math.round(xOf(step - 0.5, w)) + 0.5
  if (x < LEFT || x > w) return
  g.strokeStyle = colour
  g.setLineDash(dash)
  g.beginPath()
  g.moveTo(x, 0)
  g.lineTo(x, h - 20)
  g.stroke()
  g.setLineDash([])
}

function drawLive(colours) {
  const [g, w, h] = pen(live), tall = h - 20
  axes(g, w, h, colours)
  for (let x = LEFT; x < w - 4; x++) {
    const a = clamp(Math.floor(stepAt(x, w)) + 1, 1, steps)
    const b = clamp(Math.ceil(stepAt(x + 1, w)), a, steps)
    let top = a
    for (let s = a + 1; s <= b; s++) if (total[s] > total[top]) top = s
    let low = 0
    D.roles.forEach((role, r) => {
      const high = low + stacks[r][top]
      if (high > low) {
        g.fillStyle = role[2]
        g.fillRect(x, tall * (1 - high / D.arena), 1, tall * (high - low) / D.arena)
      }
      low = high
    })
  }
  upright(g, w, h, D.peak, colours.strong, [4, 3])
  if (chosenStep) upright(g, w, h, chosenStep, colours.strong, [])
}

const matches = i => wanted === "" || [B.what[i], B.place[i], B.module[i], B.type[i]]
  .some(t => text(t).toLowerCase().includes(wanted))

function boxOf(i, w, tall) {
  const x = xOf(B.first[i] - 1, w), right = xOf(B.last[i], w)
  const height = Math.max(tall * B.bytes[i] / D.arena, 0.5)
  const left = Math.max(x, LEFT)
  return [left, tall * (1 - B.offset[i] / D.arena) - height,
    Math.max(Math.min(right, w - 4) - left, 0.5), height]
}

const visible = i => B.last[i] > view.from && B.first[i] - 1 < view.to

function outline(g, w, tall, colours) {
  const [x, y, width, height] = boxOf(chosen, w, tall)
  g.strokeStyle = colours.strong
  g.lineWidth = 2
  g.strokeRect(x, y - 1, width, height + 2)
  g.lineWidth = 1
  for (const s of B.reads[chosen]) {       // a mark at each step that reads it
    const at = xOf(s - 0.5, w)
    if (at < LEFT || at > w) continue
    g.fillStyle = colours.strong
    g.beginPath()
    g.moveTo(at - 5, y + height + 9)
    g.lineTo(at + 5, y + height + 9)
    g.lineTo(at, y + height + 1)
    g.fill()
  }
}

function drawArena(colours) {
  const [g, w, h] = pen(arena), tall = h - 20
  axes(g, w, h, colours)
  for (let i = 0; i < buffers; i++) {
    if (!visible(i)) continue
    const [x, y, width, height] = boxOf(i, w, tall)
    g.globalAlpha = matches(i) ? 1 : 0.15
    g.fillStyle = D.roles[B.role[i]][2]
    g.fillRect(x, y, width, height)
    if (width < 3 || height < 3) continue
    g.strokeStyle = colours.paper
    g.strokeRect(x, y, width, height)
  }
  g.globalAlpha = 1
  upright(g, w, h, D.peak, colours.strong, [4, 3])
  if (chosenStep) upright(g, w, h, chosenStep, colours.strong, [])
  if (chosen >= 0 && visible(chosen)) outline(g, w, tall, colours)
}

const laneTop = i => 4 + LANE * (X.out[i] ? 0 : rows[1]) + LANE * X.row[i] + (X.out[i] ? 0 : 6)
function drawLanes(colours) {
  if (!lanes) return
  const [g, w, h] = pen(lanes)
  numbers(g, w, h, colours)
  g.textAlign = "right"
  if (rows[1]) g.fillText("out", LEFT - 6, 14)
  if (rows[0]) g.fillText("in", LEFT - 6, 20 + LANE * rows[1])
  for (let i = 0; i < X.out.length; i++) {
    const x = Math.max(xOf(X.start[i] - 1, w), LEFT), right = Math.min(xOf(X.wait[i], w), w - 4)
    if (right < LEFT || x > w - 4) continue
    g.fillStyle = X.long[i] ? "#e69f00" : "#009e73"
    g.fillRect(x, laneTop(i), Math.max(right - x, 1), LANE - 2)
    g.fillStyle = "#c00"
    if (X.stall[i]) g.fillRect(Math.max(right - 3, x), laneTop(i), 3, LANE - 2)
  }
}

const paint = soon(() => {
  const colours = ink()
  drawLive(colours)
  drawArena(colours)
  drawLanes(colours)
})

function draw() {
  where.value = `steps ${countText(Math.floor(view.from) + 1)} to `
    + `${countText(Math.ceil(view.to))} of ${countText(steps)}`
  Object.assign(place.dataset, { from: view.from.toFixed(2), to: view.to.toFixed(2), chosen,
    step: chosenStep })
  paint()
}

// Show so many steps from here; at least a few, at most all.
function show(from, span) {
  span = clamp(span, Math.min(4, steps), steps)
  view.from = clamp(from, 0, steps - span)
  view.to = view.from + span
  draw()
}
const zoom = (factor, at) => {
  const span = view.to - view.from, share = (at - view.from) / span
  const next = clamp(span * factor, Math.min(4, steps), steps)
  show(at - share * next, next)
}
const centre = step => {
  const span = view.to - view.from
  if (step - 1 < view.from || step > view.to) show(step - 0.5 - span / 2, span)
}

// The buffer under a point of the arena: the smallest, where thin ones lie side by side.
function hit(x, y, reach) {
  const w = arena.clientWidth, tall = arena.clientHeight - 20
  let best = -1, least = Infinity
  for (let i = 0; i < buffers; i++) {
    if (!visible(i)) continue
    const [left, top, width, height] = boxOf(i, w, tall)
    const out = Math.max(left - x, x - left - width, top - y, y - top - height, 0)
    if (out > reach || out > least || out === least && B.bytes[i] >= B.bytes[best]) continue
    best = i
    least = out
  }
  return best
}
]==]
