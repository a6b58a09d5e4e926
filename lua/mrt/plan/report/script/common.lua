--- common.lua -- what the programs of pages share, in JavaScript: elements, numbers, tips
---
--- Texts become text nodes, never markup.
---
--- SPDX-License-Identifier: MIT

return [==[
const find = id => document.getElementById(id)
const read = id => JSON.parse(find(id).textContent)

// An element: attributes (functions listen), then children; texts stay texts.
function el(name, attributes, ...children) {
  const svg = name.startsWith("svg:")
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name)
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") e.addEventListener(key, value)
    else if (value !== undefined && value !== false) e.setAttribute(key, value)
  }
  e.append(...children)
  return e
}

const clamp = (x, low, high) => Math.min(Math.max(x, low), high)

function inUnits(n, size, units) {
  let unit = 0
  while (Math.abs(n) >= size && unit < units.length - 1) n /= size, unit++
  return (unit === 0 ? Math.round(n) : n.toFixed(n < 10 ? 2 : 1)) + " " + units[unit]
}
const bytesText = n => inUnits(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
const timeText = us => us < 1e3 ? us + " us" : us < 1e6 ? (us / 1e3).toPrecision(3) + " ms"
  : (us / 1e6).toPrecision(3) + " s"
const countText = n => String(n).replace(/\B(?=(\d{3})+$)/g, ",")
function shortText(n) {
  const size = Math.abs(n), unit = size < 1e4 ? 0 : Math.min(Math.floor(Math.log10(size) / 3), 4)
  if (n === 0) return "0"
  if (size < 1e-3 || size >= 1e15) return n.toExponential(2).replace(/\.?0*e\+?/, "e")
  return Number((n / 1000 ** unit).toPrecision(4)) + ["", "k", "M", "G", "T"][unit]
}

// A tip beside the pointer; the first line is its head.
const tip = el("div", { class: "tip", hidden: "" })
document.body.append(tip)
function showTip(x, y, lines) {
  tip.replaceChildren(...lines.map((line, i) => el(i ? "div" : "b", {}, line)))
  tip.hidden = false
  const w = tip.offsetWidth, h = tip.offsetHeight
  tip.style.left = clamp(x + 14, 4, Math.max(innerWidth - w - 4, 4)) + "px"
  tip.style.top = (y + 18 + h < innerHeight ? y + 18 : Math.max(y - h - 12, 4)) + "px"
}
function hideTip() { tip.hidden = true }

// Colours as the page has them now, light or dark.
const dark = matchMedia("(prefers-color-scheme: dark)")
function ink() {
  const style = getComputedStyle(document.body)
  return { text: style.color, paper: style.backgroundColor,
    faint: dark.matches ? "#3a3a40" : "#ddd", strong: dark.matches ? "#fff" : "#000" }
}

// At most once a frame.
function soon(draw) {
  let asked = false
  return () => {
    if (asked) return
    asked = true
    requestAnimationFrame(() => { asked = false; draw() })
  }
}

// A canvas as wide as its place and as sharp as the screen.
function pen(canvas) {
  const scale = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
    canvas.width = Math.round(w * scale)
    canvas.height = Math.round(h * scale)
  }
  const g = canvas.getContext("2d")
  g.setTransform(scale, 0, 0, scale, 0, 0)
  g.clearRect(0, 0, w, h)
  g.font = "12px system-ui, sans-serif"
  return [g, w, h]
}
]==]
