--- front.lua -- a slider of the budget over a plan's front, in JavaScript
---
--- SPDX-License-Identifier: MIT

return [==[
const points = read("front-data"), frontPlace = find("front")

// The quickest that fits, of those that keep bits; those that swap at rates that nobody has
// measured where nothing else fits.
function quickest(budget) {
  const fits = points.filter(p => p.needs <= budget)
  const known = fits.filter(p => !p.guessed)
  return (known.length ? known : fits).reduce((a, p) => a && a.seconds <= p.seconds ? a : p, null)
}

function sentence(budget, p) {
  if (!p) return `${bytesText(budget)}: nothing that was planned here fits`
  const first = points.find(q => q.way === "as it is") || points[0]
  const words = p.way === "as it is" ? `the step as it is: ${p.does}` : p.accumulate
    ? `in ${p.accumulate} micro-batches (accumulate = ${p.accumulate})`
    : `memory = "${Math.ceil(p.memory / 1048576 * 10) / 10}MiB": ${p.does}`
  const time = timeText(Math.round(p.seconds * 1e6))
  return `${bytesText(budget)}: peak ${bytesText(p.peak)}, ${time}, `
    + `${(p.seconds / first.seconds).toFixed(2)}x the time; ${words}`
    + (p.guessed ? "; copies as quick as the profile guesses" : "")
}

const kinds = [["as it is", "as it is", "#009e73", p => p.way === "as it is"],
  ["memory", "recomputing or swapping", "#0072b2", p => p.memory !== undefined],
  ["micro", "micro-batches", "#d55e00", p => p.accumulate !== undefined]]
// Those than which none is both smaller and quicker, from the largest on.
const best = points.filter(p => !points.some(q => q !== p && q.peak <= p.peak
  && q.seconds <= p.seconds && (q.peak < p.peak || q.seconds < p.seconds)))
const least = Math.min(...points.map(p => p.needs)), most = Math.max(...points.map(p => p.needs))
let budget = most
const says = el("output", { class: "says", "aria-live": "polite" })
const slider = el("input", { type: "range", min: 0, max: 1000, value: 1000,
  "aria-label": "budget in bytes", input: () => setBudget(least + (most - least)
    * Number(slider.value) / 1000) })

const frontPlot = plot({
  label: "Predicted time of a step against its peak", height: 300, near: true,
  x: { label: "peak", bytes: true }, y: { label: "predicted time", time: true },
  series: () => [{ name: "front", colour: "#8888", points: best
    .map(p => [p.peak, p.seconds]) }, ...kinds.map(([, name, colour, is]) => {
    const own = points.filter(is)
    return { name, colour, bare: true, dots: 5, points: own.map(p => [p.peak, p.seconds]), tip: i =>
      sentence(own[i].needs, own[i]).split("; "), own }
  })],
  chosen: (s, i) => {
    slider.value = Math.ceil(1000 * (s.own[i].needs - least) / Math.max(most - least, 1))
    setBudget(s.own[i].needs)
  },
  over: box => {
    const x = clamp(box.px(budget), box.left, box.right), p = quickest(budget)
    box.svg.append(el("svg:line", { class: "limit", x1: x, x2: x, y1: box.top, y2: box.bottom }))
    if (p) box.svg.append(el("svg:circle", { cx: box.px(p.peak), cy: box.py(p.seconds), r: 9,
      fill: "none", stroke: "currentColor", "stroke-width": 2 }))
  },
})

function setBudget(bytes) {
  budget = bytes
  const p = quickest(budget), row = points.indexOf(p)
  says.value = sentence(budget, p)
  for (const tr of document.querySelectorAll("#front-table tr[data-row]"))
    tr.classList.toggle("on", Number(tr.dataset.row) === row)
  frontPlot.draw()
}

const legend2 = el("div", { class: "legend" }, ...kinds.filter(k => points.some(k[3]))
  .map(k => el("span", {}, el("i", { style: `background:${k[2]}` }), k[1])))
frontPlace.replaceChildren(legend2, frontPlot.node,
  el("div", { class: "tools" }, el("label", { class: "slide" }, "budget ", slider)),
  el("p", {}, says))
setBudget(most)
]==]
