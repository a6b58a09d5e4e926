--- page.lua -- what all pages of the manual have: head, search, list of pages
---
--- SPDX-License-Identifier: MIT

local escape = require "lua_code".escape

local M = {}

local function navigation(groups, here)
  local out = {}
  for _, group in ipairs(groups) do
    out[#out + 1] = ("<h2>%s</h2><ul>"):format(escape(group.title))
    for _, page in ipairs(group.pages) do
      out[#out + 1] = page.file == here
        and ('<li><a class="here" href="%s">%s</a></li>'):format(page.file, escape(page.title))
        or ('<li><a href="%s">%s</a></li>'):format(page.file, escape(page.title))
    end
    out[#out + 1] = "</ul>"
  end
  return table.concat(out, "\n")
end

--- A whole page.
---@param o {title: string, file: string, body: string, groups: table[], version: string}
---@return string
function M.html(o)
  return table.concat { [[
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>]], escape(o.title), [[ - mrt</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css">
</head>
<body>
<header>
<button id="menu" aria-label="pages">&#9776;</button>
<a class="name" href="index.html">mrt <span>]], escape(o.version), [[</span></a>
<div class="find"><input id="find" type="search" placeholder="search  ( / )" aria-label="search"
  autocomplete="off"><ul id="found"></ul></div>
<button id="dark" aria-label="dark or light">&#9680;</button>
</header>
<div class="frame">
<nav id="nav">]], navigation(o.groups, o.file), [[</nav>
<main>
]], o.body, [[

</main>
</div>
<script src="index.js"></script>
<script src="manual.js"></script>
</body>
</html>
]] }
end

return M
