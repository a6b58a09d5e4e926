--- plot.lua -- lines and points of numbers, in JavaScript: axes, log scales, hover values
---
--- SPDX-License-Identifier: MIT

return [==[
const unitText = (axis, v) => axis.bytes ? bytesText(v) : axis.time ? timeText(Math.round(v * 1e6))
  : axis.seconds ? durationText(v) : shortText(v)
const durationText = s => s < 60 ? shortText(s) + " s" : s < 3600 ? `${Math.floor(s / 60)}m `
  + `${Math.round(s % 60)}s` : `${Math.floor(s / 3600)}h ${Math.floor(s % 3600 / 60)}m`

// Round numbers from low to high: on a log axis powers, else equal steps.
function ticks(axis, low, high, most) {
  const list = [], base = axis.bytes ? 2 : 10
  if (axis.log) {
    const from = Math.floor(Math.log(low) / Math.log(base) + 1e-9)
    const to = Math.ceil(Math.log(high) / Math.log(base) - 1e-9)
    const skip = Math.max(1, Math.ceil((to - from) / most)), few = !axis.bytes && to - from < 3
    for (let k = from; k <= to; k += skip)
      for (const m of few ? [1, 2, 5] : [1]) list.push(m * base ** k)
    return list.filter(v => v >= low * 0.999 && v <= high * 1.001)
  }
  let step = base ** Math.floor(Math.log((high - low) / most) / Math.log(base))
  const factors = axis.bytes ? [1, 2, 4] : [1, 2, 5, 10]
  step *= factors.find(m => (high - low) / (step * m) <= most) || factors[factors.length - 1]
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9); k++) list.push(k * step)
  return list
}

// What an axis shows of the numbers given: null where there is none.
function range(axis, numbers) {
  let low = Infinity, high = -Infinity
  for (const v of numbers) if (!axis.log || v > 0) {
    low = Math.min(low, v)
    high = Math.max(high, v)
  }
  if (low > high) return null
  if (!axis.log && axis.zero) low = Math.min(low, 0)
  if (axis.log) return low === high ? [low / 2, high * 2] : [low, high]
  const more = high > low ? (high - low) * 0.04 : Math.abs(high) / 2 || 1
  return [axis.zero && low === 0 ? 0 : low - more, high + more]
}

// A chart.  series: {name, colour, points: [[x, y]], dashed, dots, faint, tip(i)}; x and y:
// {label, log, bytes, time, seconds, zero}.  `draw` draws what `options` say by then.
function plot(options) {
  const node = el("div", { class: "plot", tabindex: 0, role: "img", "aria-label": options.label })
  let marks = [], cursor = -1, box = null

  function draw() {
    const w = Math.max(node.clientWidth, 200), h = options.height || 260
    const left = 76, right = w - 10, top = 8, bottom = h - 40
    const series = options.series().filter(s => s.points.length), x = options.x, y = options.y
    const xs = range(x, series.flatMap(s => s.points.map(p => p[0])))
    const ys = range(y, series.flatMap(s => s.points.map(p => p[1])))
    if (!xs || !ys) return node.replaceChildren(el("p", { class: "hint" }, "nothing to draw"))
    const scale = (axis, [low, high], from, to) => {
      const f = axis.log ? Math.log : v => v
      return v => from + (f(v) - f(low)) / (f(high) - f(low)) * (to - from)
    }
    const px = scale(x, xs, left, right), py = scale(y, ys, bottom, top)
    const svg = el("svg:svg", { viewBox: `0 0 ${w} ${h}`, width: w, height: h })
    for (const v of ticks(y, ...ys, 6)) svg.append(
      el("svg:line", { class: "axis", x1: left, x2: right, y1: py(v), y2: py(v) }),
      el("svg:text", { x: left - 6, y: py(v) + 4, "text-anchor": "end" }, unitText(y, v)))
    for (const v of ticks(x, ...xs, Math.max(2, w / 110))) svg.append(
      el("svg:text", { x: px(v), y: bottom + 17, "text-anchor": "middle" }, unitText(x, v)))
    svg.append(el("svg:text", { x: (left + right) / 2, y: h - 6, "text-anchor": "middle" },
      x.label))
    marks = []
    for (const s of series) {
      const shown = s.points.map((p, i) => [px(p[0]), py(p[1]), p, i, s])
        .filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b))
      if (s.tip || !options.near) marks.push(...shown)
      if (!s.bare) svg.append(el("svg:polyline", { fill: "none", stroke: s.colour,
        "stroke-width": s.faint ? 1 : 2, "stroke-dasharray": s.dashed && "6 4",
        "stroke-opacity": s.faint && 0.35,
        points: shown.map(m => `${m[0].toFixed(1)},${m[1].toFixed(1)}`).join(" ") }))
      if (s.dots || shown.length === 1) for (const m of shown)
        svg.append(el("svg:circle", { cx: m[0], cy: m[1], r: s.dots || 3, fill: s.colour }))
    }
    box = { px, py, left, right, top, bottom, svg, x, y }
    if (options.over) options.over(box)
    node.replaceChildren(svg)
  }

  // The numbers of all lines at the mark that is nearest, and a line there.
  function point(x, y, clientX, clientY) {
    let best = null, least = Infinity
    for (const m of marks) {
      const far = options.near ? Math.hypot(m[0] - x, m[1] - y) : Math.abs(m[0] - x)
      if (far < least) least = far, best = m
    }
    if (!best) return null
    node.querySelector(".cursor")?.remove()
    box.svg.append(el("svg:line", { class: "axis cursor", x1: best[0], x2: best[0], y1: box.top,
      y2: box.bottom }))
    if (options.near) showTip(clientX, clientY, best[4].tip(best[3]))
    else {
      const lines = [`${box.x.label} ${unitText(box.x, best[2][0])}`]
      for (const s of new Set(marks.map(m => m[4]))) {
        const own = marks.filter(m => m[4] === s)
          .reduce((a, m) => Math.abs(m[0] - best[0]) < Math.abs(a[0] - best[0]) ? m : a)
        if (Math.abs(own[0] - best[0]) < 24) lines.push(`${s.name}: ${unitText(box.y, own[2][1])}`)
      }
      showTip(clientX, clientY, lines)
    }
    return best
  }

  const leave = () => { hideTip(); node.querySelector(".cursor")?.remove() }
  node.addEventListener("pointermove", e => {
    const r = node.getBoundingClientRect()
    if (box) point(e.clientX - r.left, e.clientY - r.top, e.clientX, e.clientY)
  })
  node.addEventListener("pointerleave", leave)
  node.addEventListener("blur", leave)
  node.addEventListener("click", e => {
    const r = node.getBoundingClientRect()
    const m = box && point(e.clientX - r.left, e.clientY - r.top, e.clientX, e.clientY)
    if (m && options.chosen) options.chosen(m[4], m[3])
  })
  node.addEventListener("keydown", e => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key]
    if (!by || !marks.length || e.ctrlKey || e.metaKey || e.altKey) return
    e.preventDefault()
    const sorted = [...marks].sort((a, b) => a[0] - b[0])
    cursor = clamp(cursor + by, 0, sorted.length - 1)
    const r = node.getBoundingClientRect(), m = sorted[cursor]
    point(m[0], m[1], r.left + m[0], r.top + m[1])
  })
  addEventListener("resize", soon(draw))
  return { node, draw }
}
]==]
