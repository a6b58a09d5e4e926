--- select.lua -- what is chosen in a plan's timeline and what it says, in JavaScript
---
--- SPDX-License-Identifier: MIT

return [==[
const details = el("div", { class: "details", "aria-live": "polite" })
const lineOf = (place, module) => (module >= 0 ? text(module) + ", " : "") + text(place)
const stepText = s => `step ${countText(s)}: ${text(S.op[s - 1])}`
  + (S.back[s - 1] ? " (gradient)" : "")
const stepLine = s => lineOf(S.place[s - 1], S.module[s - 1])
const spanText = i => B.first[i] === B.last[i] ? `step ${countText(B.first[i])}`
  : `steps ${countText(B.first[i])} to ${countText(B.last[i])}`
const nameText = i => `${text(B.what[i])} ${text(B.type[i])}`
const kindText = i => D.roles[B.role[i]][1]

const button = (words, act) => el("button", { type: "button", click: act }, words)
const stepButton = s => button(stepText(s), () => chooseStep(s))
const square = i => el("i", { style: `background:${D.roles[B.role[i]][2]}` })
const fact = (name, ...what) => el("div", {}, el("span", { class: "name" }, name), ...what)

function describeBuffer(i) {
  const reads = B.reads[i], share = (B.last[i] - B.first[i] + 1) / steps
  return [
    el("h3", {}, square(i), `${nameText(i)}, ${bytesText(B.bytes[i])}`),
    fact("kind", kindText(i)),
    fact("made at", el("code", {}, text(B.place[i]))),
    B.module[i] >= 0 ? fact("module", el("code", {}, text(B.module[i]))) : "",
    fact("bytes", `${countText(B.bytes[i])} at offset ${countText(B.offset[i])}`),
    fact("alive", `${spanText(i)}, ${(100 * share).toFixed(share < 0.1 ? 1 : 0)} % of the run`),
    B.maker[i] ? fact("written by", stepButton(B.maker[i])) : "",
    fact(reads.length ? "read by" : "read by nobody", ...reads.slice(0, 40).map(stepButton)),
    reads.length > 40 ? fact("", `and ${reads.length - 40} more`) : "",
  ]
}

function aliveAt(s) {
  const list = []
  for (let i = 0; i < buffers; i++) if (B.first[i] <= s && s <= B.last[i]) list.push(i)
  return list.sort((a, b) => B.bytes[b] - B.bytes[a] || a - b)
}

function describeStep(s) {
  const list = aliveAt(s)
  return [
    el("h3", {}, `${stepText(s)}, ${bytesText(total[s])} alive in the arena`
      + (s === D.peak ? ": the peak" : "")),
    fact("line", el("code", {}, stepLine(s))),
    S.time[s - 1] ? fact("predicted", timeText(S.time[s - 1])) : "",
    fact("alive", `${list.length} buffers, the largest`),
    el("ol", {}, ...list.slice(0, 12).map(i => el("li", {}, square(i),
      button(nameText(i), () => choose(i)), ` ${bytesText(B.bytes[i])}, `,
      el("code", {}, lineOf(B.place[i], B.module[i]))))),
  ]
}

function choose(i) {
  chosen = i
  chosenStep = 0
  details.replaceChildren(...(i < 0 ? [] : describeBuffer(i)))
  if (i >= 0 && !visible(i)) centre(B.first[i])
  draw()
}
function chooseStep(s) {
  chosen = -1
  chosenStep = s
  details.replaceChildren(...describeStep(s))
  centre(s)
  draw()
}

// ---- what is over or under the pointer -------------------------------------------

function hover(canvas, x, y, e) {
  const s = clamp(Math.floor(stepAt(x, canvas.clientWidth)) + 1, 1, steps)
  if (x < LEFT) return hideTip()
  if (canvas === live)
    return showTip(e.clientX, e.clientY, [stepText(s), stepLine(s),
      bytesText(total[s]) + " alive in the arena"
        + (s === D.peak ? ", the peak" : "")])
  if (canvas === lanes) return hoverLanes(x, y, e)
  const i = hit(x, y, 2)
  if (i < 0) return hideTip()
  showTip(e.clientX, e.clientY, [`${nameText(i)}, ${bytesText(B.bytes[i])}`,
    `${kindText(i)}, ${spanText(i)}`, lineOf(B.place[i], B.module[i]),
    `read by ${B.reads[i].length} step${B.reads[i].length === 1 ? "" : "s"}`])
}

function hoverLanes(x, y, e) {
  const w = lanes.clientWidth
  for (let i = 0; i < X.out.length; i++)
    if (y >= laneTop(i) && y < laneTop(i) + LANE && x >= xOf(X.start[i] - 1, w) - 1
      && x <= xOf(X.wait[i], w) + 1)
      return showTip(e.clientX, e.clientY, [text(X.what[i]), bytesText(X.bytes[i])
        + (X.out[i] ? " out of memory" : " into memory"), `steps ${X.start[i]} to ${X.wait[i]}`,
        X.stall[i] ? `stalls ${timeText(X.stall[i])}, predicted` : "no stall"])
  hideTip()
}

function click(canvas, x, y) {
  if (x < LEFT) return
  const s = clamp(Math.floor(stepAt(x, canvas.clientWidth)) + 1, 1, steps)
  if (canvas === arena) choose(hit(x, y, 6))
  else chooseStep(s)
}

// ---- pointers, wheels, keys --------------------------------------------------------

function listen(canvas) {
  const points = new Map()
  let moved = false, apart = 0
  const xy = e => [e.clientX - canvas.getBoundingClientRect().left,
    e.clientY - canvas.getBoundingClientRect().top]
  const spread = () => {
    const [a, b] = [...points.values()]
    return [Math.abs(a - b), (a + b) / 2]
  }
  canvas.addEventListener("pointerdown", e => {
    points.set(e.pointerId, xy(e)[0])
    moved = points.size > 1
    if (points.size === 2) apart = spread()[0]
  })
  canvas.addEventListener("pointermove", e => {
    const [x, y] = xy(e), before = points.get(e.pointerId)
    if (before === undefined) return hover(canvas, x, y, e)
    if (points.size === 1 && !moved && Math.abs(x - before) < 4) return
    if (!moved && canvas.setPointerCapture && e.isTrusted) canvas.setPointerCapture(e.pointerId)
    moved = true
    hideTip()
    points.set(e.pointerId, x)
    const span = view.to - view.from
    const steps = (x - before) / wide(canvas.clientWidth) * span
    if (points.size === 1) return show(view.from - steps, span)
    const [now, middle] = spread()
    if (apart > 0 && now > 0) zoom(apart / now, stepAt(middle, canvas.clientWidth))
    apart = now
  })
  const end = e => {
    if (points.delete(e.pointerId) && !moved && e.type === "pointerup") click(canvas, ...xy(e))
  }
  for (const type of ["pointerup", "pointercancel"]) canvas.addEventListener(type, end)
  canvas.addEventListener("pointerleave", hideTip)
  canvas.addEventListener("dblclick", e => zoom(1 / 3, stepAt(xy(e)[0], canvas.clientWidth)))
  canvas.addEventListener("wheel", e => wheel(canvas, e, xy(e)[0]), { passive: false })
  canvas.addEventListener("keydown", key)
}

// The page scrolls on until the chart has been clicked; a pinch always zooms.
function wheel(canvas, e, x) {
  if (!e.ctrlKey && document.activeElement !== canvas) return
  e.preventDefault()
  const span = view.to - view.from
  if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) return show(view.from + e.deltaX / 500 * span, span)
  zoom(Math.exp(clamp(e.deltaY, -300, 300) / 300), stepAt(x, canvas.clientWidth))
}

// Buffers in the order in which they begin, those looked for.
function next(by) {
  const list = [...Array(buffers).keys()].filter(matches)
    .sort((a, b) => B.first[a] - B.first[b] || B.offset[a] - B.offset[b])
  if (!list.length) return
  const at = list.indexOf(chosen)
  choose(list[at < 0 ? (by > 0 ? 0 : list.length - 1) : (at + by + list.length) % list.length])
}

function key(e) {
  if (e.ctrlKey || e.metaKey || e.altKey) return
  const span = view.to - view.from
  const at = chosenStep ? chosenStep - 0.5 : (view.from + view.to) / 2
  const acts = {
    ArrowLeft: () => show(view.from - span / 8, span),
    ArrowRight: () => show(view.from + span / 8, span),
    "+": () => zoom(1 / 1.5, at), "=": () => zoom(1 / 1.5, at), "-": () => zoom(1.5, at),
    0: () => show(0, steps), Home: () => show(0, span), End: () => show(steps, span),
    p: () => chooseStep(D.peak), ",": () => next(-1), ".": () => next(1), Escape: () => choose(-1),
  }
  if (!acts[e.key]) return
  e.preventDefault()
  acts[e.key]()
}

const middle = () => (view.from + view.to) / 2
const tool = (words, label, act) => el("button", { type: "button", "aria-label": label,
  title: label, click: act }, words)
const looking = el("input", { type: "search", placeholder: "find a buffer, line, module",
  "aria-label": "find a buffer, line or module", input: e => {
    wanted = e.target.value.trim().toLowerCase()
    draw()
  }, keydown: e => { if (e.key === "Enter") next(1) } })

if (place && steps && buffers) {
  const bar = el("div", { class: "tools" },
    tool("\u2212", "zoom out", () => zoom(1.5, middle())),
    tool("+", "zoom in", () => zoom(1 / 1.5, middle())),
    tool("all", "show all steps", () => show(0, steps)),
    tool("peak", "go to the peak", () => chooseStep(D.peak)), where, looking)
  const legend = el("div", { class: "legend" }, ...D.roles.map(role => el("span", {},
    el("i", { style: `background:${role[2]}` }), role[1])))
  const lanesLegend = el("div", { class: "legend" }, ...[["#009e73", "hidden beside its steps"],
    ["#e69f00", "longer than the steps beside it"], ["#c00", "the run waits here"]]
    .map(([colour, words]) => el("span", {}, el("i", { style: `background:${colour}` }), words)))
  place.replaceChildren(bar, legend, el("h3", {}, "Bytes alive in the arena"), live,
    el("h3", {}, `The arena, ${bytesText(D.arena)}: offset against time`), arena,
    ...(lanes ? [el("h3", {}, "Copies to and from the swap tier"), lanesLegend, lanes] : []),
    el("p", { class: "hint" }, "Click a buffer or a step. Drag to move; wheel (after a click), "
      + "pinch, double click or + and \u2212 to zoom; arrow keys, 0, p, comma and full stop where "
      + "a chart has the focus."),
    details)
  for (const canvas of [live, arena, lanes]) if (canvas) listen(canvas)
  addEventListener("resize", draw)
  dark.addEventListener("change", draw)
  draw()
}
]==]
