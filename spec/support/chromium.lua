--- chromium.lua -- pages opened in a browser without a window, where one is installed
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"

local chromium = {}

local pipe = assert(io.popen "command -v chromium || command -v chromium-browser")
chromium.path = pipe:read "l" -- nil: there is none
pipe:close()

--- Open a page, run a program in it once it has loaded, and wait a little.
---@param page string     its text
---@param program? string JavaScript; what `say(...)` is given comes back
---@param wide? integer   pixels, default 1200
---@return string[] said
---@return string[] console  messages, errors included
function chromium.open(page, program, wide)
  local path, log = files.name ".html", files.name ".log"
  local more = ([[<pre id="said" style="white-space: pre-wrap; overflow-wrap: anywhere"></pre>
    <script>
    const say = (...words) => { said.textContent += words.join(" ") + "\n" }
    addEventListener("load", () => setTimeout(() => { %s }, 200))</script></body>]]):format(
      program or "")
  files.write(path, (page:gsub("</body>", function() return more end)))
  local command = ("timeout 60 '%s' --headless=new --no-sandbox --disable-gpu --dump-dom "
    .. "--user-data-dir='%s' --enable-logging=stderr --v=0 --virtual-time-budget=4000 "
    .. "--window-size=%d,900 'file://%s' 2>'%s'"):format(chromium.path, files.name ".profile",
      wide or 1200, path, log)
  local out <close> = assert(io.popen(command))
  local said, console = {}, {}
  local text = out:read "a":match '<pre id="said"[^>]*>(.-)</pre>' or "no page"
  for line in text:gmatch "[^\n]+" do
    said[#said + 1] = line:gsub("&lt;", "<"):gsub("&gt;", ">"):gsub("&amp;", "&")
  end
  for line in files.read(log):gmatch "[^\n]*CONSOLE[^\n]*" do console[#console + 1] = line end
  return said, console
end

return chromium
