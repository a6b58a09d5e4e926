--- runs.lua -- the charts of training runs, in JavaScript: hover values, log axes, runs beside
--- each other
---
--- The data are those of mrt/train/log/page.lua.
---
--- SPDX-License-Identifier: MIT

return [==[
const runs = read("runs-data"), runsPlace = find("runs")
const shown = runs.map(() => true)
let xAxis = "step"

// The points of one scalar, by step or by seconds.
const pointsOf = (run, name) => run.series[name] ? run.series[name].value
  .map((v, i) => [run.series[name][xAxis][i], v]) : []

// Each point the mean of itself and what came before, newer ones weighing more.
function smooth(points) {
  const keep = 1 - Math.min(1, 20 / Math.max(points.length, 1))
  let mean = 0, weight = 0
  return points.map(([x, y]) => {
    mean = keep * mean + (1 - keep) * y
    weight = keep * weight + (1 - keep)
    return [x, mean / weight]
  })
}

const several = runs.length > 1
const named = (run, name) => several ? `${run.name}: ${name}` : name
const each = make => () => runs.flatMap((run, i) => shown[i] ? make(run, run.colour) : [])
const one = (scalar, name) => each((run, colour) => [{ name: named(run, name), colour,
  points: pointsOf(run, scalar) }])

const charts = [
  ["Loss", "loss", {}, ["loss", "eval"], each((run, colour) => {
    const raw = pointsOf(run, "loss")
    return [{ name: named(run, "each step"), colour, faint: true, points: raw },
      { name: named(run, "smoothed"), colour, points: smooth(raw) },
      { name: named(run, "evaluation"), colour: several ? colour : "#d55e00", dots: 3,
        dashed: true, points: pointsOf(run, "eval") }]
  })],
  ["Learning rate", "learning rate", { zero: true }, ["lr"], one("lr", "learning rate")],
  ["Length of the gradient", "norm", { zero: true }, ["grad_norm"], one("grad_norm", "norm")],
  ["Speed", runs[0].unit + "/s", { zero: true }, ["throughput"], each((run, colour) => {
    const raw = pointsOf(run, "throughput")
    return [{ name: named(run, "each step"), colour, faint: true, points: raw },
      { name: named(run, "smoothed"), colour, points: smooth(raw) }]
  })],
  ["Memory", "bytes", { bytes: true, zero: true }, ["memory"], each((run, colour) => {
    const points = pointsOf(run, "memory"), ends = [points[0], points[points.length - 1]]
    return [{ name: named(run, "tensors in a step"), colour, points },
      { name: named(run, "planned"), colour: several ? colour : "#d55e00", dashed: true,
        points: run.planned && points.length ? ends.map(p => [p[0], run.planned]) : [] }]
  })],
  ["Gradient noise scale", "rows", { zero: true }, ["gradient_noise"],
    one("gradient_noise", "noise / square of the gradient")],
]

const drawn = []
const boxes = charts.filter(c => c[3].some(name => runs.some(run => run.series[name])))
  .map(([title, label, y, , series]) => {
    const axis = { label, ...y }, p = plot({ label: title, series, y: axis,
      get x() { return xAxis === "step" ? { label: "step" } : { label: "time", seconds: true } } })
    drawn.push(p)
    const log = el("input", { type: "checkbox", change: () => {
      axis.log = log.checked
      p.draw()
    } })
    return el("figure", {}, el("figcaption", {}, el("b", {}, title),
      el("label", {}, log, "log axis")), p.node)
  })
const redraw = () => drawn.forEach(p => p.draw())

const squareOf = colour => el("i", { style: `background:${colour}` })
const pick = el("select", { "aria-label": "horizontal axis", change: () => {
  xAxis = pick.value
  redraw()
} }, el("option", { value: "step" }, "by step"), el("option", { value: "seconds" }, "by time"))
const toggles = runs.map((run, i) => {
  const box = el("input", { type: "checkbox", checked: "", change: () => {
    shown[i] = box.checked
    redraw()
  } })
  return el("label", {}, box, squareOf(run.colour), run.name)
})
const key2 = ["each step, thin", "smoothed", "evaluation or plan, dashed"].join("; ")
runsPlace.replaceChildren(el("div", { class: "tools" }, pick, ...(several ? toggles : []),
  el("span", { class: "hint" }, key2)), el("div", { class: "charts" }, ...boxes))
redraw()
]==]
