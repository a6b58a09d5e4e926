--- markdown.lua -- Markdown as HTML, by cmark-gfm
---
--- Code is marked, headings get names to link to, links between pages lead to what the
--- pages are called here, and public names in code lead to the reference.
---
--- SPDX-License-Identifier: MIT

local lua_code = require "lua_code"

local M = {}

local function unescape(text)
  return (text:gsub("&lt;", "<"):gsub("&gt;", ">"):gsub("&quot;", '"'):gsub("&amp;", "&"))
end

-- Run a program on a text.
local function filter(command, text)
  local name = os.tmpname()
  local file <close> = assert(io.open(name, "w"))
  file:write(text)
  file:close()
  local pipe <close> = assert(io.popen(command .. " < " .. name))
  local out = pipe:read "a"
  os.remove(name)
  return out
end

--- The name that a heading is linked by.
---@param text string
---@return string
function M.slug(text)
  text = unescape(text:gsub("<[^>]*>", "")):lower()
  return (text:gsub("[^%w%s_-]", ""):gsub("%s", "-"))
end

-- A listing is Lua if it says so, or says nothing and reads like it.
local function listing(language, code)
  local plain = unescape(code)
  local lua = language == "lua" or language == "" and (plain:find "local " or plain:find "mrt[.%[]"
    or plain:find "nn%." or plain:find "[%w_]+:[%w_]+[%({\"]" or plain:find "%-%->" )
  local class = lua and ' class="lua"' or language == "text" and ' class="out"' or ""
  return ('<pre%s>%s</pre>'):format(class,
    lua and lua_code.html(plain) or code)
end

-- `mrt.nn.Linear` in code leads there.
local function link_names(html, address)
  return (html:gsub("(<a[^>]*>)(.-)</a>", function(open, inside)
    return open .. inside:gsub("<code>", "<code >") .. "</a>"
  end):gsub("<code>([^<]*)</code>", function(text)
    local to = address(unescape(text))
    return to and ('<a href="%s"><code>%s</code></a>'):format(to, text) or nil
  end):gsub("<code >", "<code>"))
end

--- Turn Markdown into HTML.
---@param text string
---@param way {address: (fun(name: string): string?), link: fun(target: string): string?}
---  where a name of the reference is, and where a link leads (nil: nowhere)
---@return string
function M.html(text, way)
  local html = filter("cmark-gfm --unsafe -e table -e autolink", text)
  html = html:gsub('<pre><code class="language%-(%w+)">(.-)</code></pre>', listing)
    :gsub("<pre><code>(.-)</code></pre>", function(code) return listing("", code) end)
  html = html:gsub("<(h[1-6])>(.-)</h[1-6]>", function(tag, inside)
    return ('<%s id="%s">%s</%s>'):format(tag, M.slug(inside), inside, tag)
  end)
  html = link_names(html, way.address)
  return (html:gsub('<a href="([^"]*)">(.-)</a>', function(target, inside)
    local to = way.link(unescape(target))
    return to and ('<a href="%s">%s</a>'):format(lua_code.escape(to), inside) or inside
  end):gsub('<img src="([^"]*)"', function(target)
    return ('<img loading="lazy" src="%s"'):format(way.image and way.image(target) or target)
  end):gsub("<table>.-</table>", function(table_html)
    return '<div class="wide">' .. table_html .. "</div>"
  end))
end

-- Text outside code, where "<" begins no tag.
local function safe(line)
  local out, code = {}, false
  for text, tick in line:gmatch "([^`]*)(`*)" do
    out[#out + 1] = (code and text or text:gsub("<", "&lt;"):gsub("%*", "\\*")) .. tick
    if #tick % 2 == 1 then code = not code end
  end
  return table.concat(out)
end

--- A comment's lines as Markdown: what is indented stays as it is written.
---@param lines string[]
---@return string
function M.of_comment(lines)
  local out, inside = {}, false
  for i, line in ipairs(lines) do
    local indented = line:find "^  " or inside and not line:find "%S"
      and (lines[i + 1] or ""):find "^  "
    if indented and not inside then
      out[#out + 1] = line:find "^    " and "```lua" or "```text"
    elseif inside and not indented then
      out[#out + 1] = "```"
    end
    inside = indented ~= nil and indented ~= false
    out[#out + 1] = inside and (line:gsub("^    ", "", 1)) or line:find "^|" and line or safe(line)
  end
  if inside then out[#out + 1] = "```" end
  return table.concat(out, "\n")
end

return M
