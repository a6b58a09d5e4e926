"use strict";
(() => {
  const byId = id => document.getElementById(id);
  const input = byId("find"), found = byId("found"), root = document.documentElement;
  let kept = null;
  try { kept = localStorage.getItem("mrt-theme"); } catch (_) { /* of a file: not kept */ }
  if (kept) root.classList.add(kept);
  byId("dark").addEventListener("click", () => {
    const dark = root.classList.contains("dark") ||
      !root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches;
    root.classList.remove("dark", "light");
    root.classList.add(dark ? "light" : "dark");
    try { localStorage.setItem("mrt-theme", dark ? "light" : "dark"); } catch (_) { /* ditto */ }
  });
  byId("menu").addEventListener("click", () => byId("nav").classList.toggle("open"));

  // Names before texts, whole names before parts of them.
  const score = (entry, words) => {
    let sum = 0;
    const name = entry[0].toLowerCase(), text = entry[2].toLowerCase();
    const last = name.split(/[.:]/).pop();
    for (const word of words) {
      if (last === word) sum += 20; else if (last.startsWith(word)) sum += 9;
      else if (name.includes(word)) sum += 5; else if (text.includes(word)) sum += 1;
      else return 0;
    }
    return sum - name.length / 100;
  };
  let at = -1;
  const choose = to => {
    const items = found.children;
    if (!items.length) return;
    if (items[at]) items[at].classList.remove("on");
    at = (to + items.length) % items.length;
    items[at].classList.add("on");
    items[at].scrollIntoView({ block: "nearest" });
  };
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const list = words.length ? MRT_INDEX.map(e => [score(e, words), e]).filter(p => p[0] > 0)
      .sort((a, b) => b[0] - a[0]).slice(0, 30) : [];
    at = -1;
    found.replaceChildren(...list.map(([, e]) => {
      const item = document.createElement("li"), link = document.createElement("a");
      const small = document.createElement("small");
      link.href = e[1];
      link.textContent = e[0];
      small.textContent = e[2];
      link.append(small);
      item.append(link);
      return item;
    }));
  };
  input.addEventListener("input", show);
  input.addEventListener("keydown", event => {
    if (event.key === "ArrowDown") choose(at + 1);
    else if (event.key === "ArrowUp") choose(at - 1);
    else if (event.key === "Escape") { input.value = ""; show(); input.blur(); }
    else if (event.key === "Enter") {
      const item = found.children[Math.max(at, 0)];
      if (item) location.href = item.firstChild.href;
    } else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    }
  });
  document.addEventListener("click", event => {
    if (!event.target.closest(".find")) found.replaceChildren();
    else if (event.target === input) show();
    if (event.target.closest("#found a")) found.replaceChildren();
  });
  for (const pre of document.querySelectorAll("pre")) {
    const button = document.createElement("button");
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      const text = pre.innerText.replace(/\n?copy(ied)?$/, "");
      try { await navigator.clipboard.writeText(text); button.textContent = "copied"; }
      catch (_) { button.textContent = "select it"; }
    });
    pre.append(button);
  }
})();
