--- manual -- writes the manual as static HTML
---
---     scripts/manual FOLDER
---
--- Guides are manual/*.md, in the order of their first lines' numbers; the reference
--- comes from the sources (mrt.reference); the pages beside the code, the README and the
--- examples are taken as they are.  Every link is checked: one that leads nowhere fails.
---
--- SPDX-License-Identifier: MIT

local root, out = arg[1], arg[2]
package.path = root .. "/manual/site/?.lua;" .. package.path

local mrt = require "mrt"
local core = require "mrt.core"
local lua_code = require "lua_code"
local markdown = require "markdown"
local page = require "page"
local pages_of = require "reference"
local reference = require "mrt.reference"

local index = reference.index()
local ref_pages, where = pages_of.pages(index)

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function write(name, text)
  local file <close> = assert(io.open(out .. "/" .. name, "wb"))
  assert(file:write(text))
end

-- ---- which pages there are -------------------------------------------------

local function title_of(text) return text:match "^#%s+([^\n]+)" or "?" end

-- Paths of Markdown in the project: those below folders that are named.
local function find_pages(folder, list)
  local entries = core.list_folder(root .. "/" .. folder)
  table.sort(entries)
  for _, entry in ipairs(entries) do
    local path = folder .. "/" .. entry
    if entry == "README.md" or entry == "PYTORCH.md" then
      list[#list + 1] = path
    elseif entry:find "^[%w_]+$" then
      find_pages(path, list)
    end
  end
  return list
end

local function file_of(path) return (path:gsub("%.md$", ""):gsub("[/.]", "-")) .. ".html" end

local sources, by_path = {}, {} -- pages of Markdown and of code; path -> page
local function add(group, path, title, file)
  local text = read(root .. "/" .. path)
  local made = { path = path, file = file or file_of(path), title = title or title_of(text),
    text = text }
  by_path[path] = made
  sources[#sources + 1] = made
  table.insert(group.pages, made)
end

local guides, references = { title = "Guide", pages = {} }, { title = "Reference", pages = ref_pages }
local beside, examples = { title = "Beside the code", pages = {} },
  { title = "Examples", pages = {} }
add(guides, "README.md", "Overview", "index.html")
local names = core.list_folder(root .. "/manual")
table.sort(names)
for _, name in ipairs(names) do
  if name:find "%.md$" then add(guides, "manual/" .. name) end
end
for _, folder in ipairs { "lua", "core", "kernels", "bindings", "spec" } do
  for _, path in ipairs(find_pages(folder, {})) do
    add(beside, path, (path:gsub("/README%.md$", ""):gsub("^lua/mrt/", "")))
  end
end
for _, name in ipairs { "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md" } do
  if io.open(root .. "/" .. name) then add(beside, name) end
end
local scripts = core.list_folder(root .. "/examples")
table.sort(scripts)
for _, name in ipairs(scripts) do
  if name:find "%.lua$" or name:find "%.c$" then
    add(examples, "examples/" .. name, (name:gsub("%.lua$", "")),
      "example-" .. name:gsub("%.", "-") .. ".html")
  end
end
local groups = { guides, references, examples, beside }

-- ---- where links lead ------------------------------------------------------

local function link_name(name)
  local entry = index.by_name[name]
  return entry and where[entry] and pages_of.address(where, entry)
end

-- A name in running text: "nn.Linear", "mrt.grad(y, x)", "optim.adamw".
local function address(text)
  if text:find "[%s=]" and not text:find "^[%w_.:]+%b()$" then return nil end
  local name = text:match "^([%w_]+[.:][%w_.:]+)"
  if not name or #name < #text and text:sub(#name + 1, #name + 1) ~= "(" then return nil end
  return link_name(name) or link_name("mrt." .. name)
    or link_name((name:gsub("^x:", "Tensor:")))
end

-- "a/b/../c" -> "a/c"
local function resolve(folder, target)
  local parts = {}
  for part in (folder .. "/" .. target):gmatch "[^/]+" do
    if part == ".." then parts[#parts] = nil elseif part ~= "." then parts[#parts + 1] = part end
  end
  return table.concat(parts, "/")
end

local copied = {}

local function links_of(source)
  local folder = source.path and source.path:match "^(.*)/[^/]*$" or ""
  return {
    address = address,
    link = function(target)
      if target:find "^%a+://" or target:find "^#" or target:find "%.html" then return target end
      local path, hash = target:match "^([^#]*)(#?.*)$"
      local full = resolve(folder, path)
      local to = by_path[full] or by_path[full .. "/README.md"]
      return to and to.file .. hash or nil
    end,
    image = function(target)
      local full = resolve(folder, target)
      local name = full:gsub("/", "-")
      if not copied[name] then
        write(name, read(root .. "/" .. full))
        copied[name] = true
      end
      return name
    end,
  }
end

-- ---- writing ---------------------------------------------------------------

local written = {} -- file -> html

local function finish(made, body)
  local html = page.html { title = made.title, file = made.file, body = body, groups = groups,
    version = mrt.version }
  written[made.file] = html
  write(made.file, html)
end

local function code_page(source)
  local code = source.path:find "%.lua$" and lua_code.html(source.text)
    or lua_code.escape(source.text)
  finish(source, ("<h1>%s</h1>\n<pre>%s</pre>"):format(lua_code.escape(source.path), code))
end

for _, source in ipairs(sources) do
  if source.path:find "%.md$" then
    finish(source, markdown.html(source.text, links_of(source)))
  else
    code_page(source)
  end
end
for _, made in ipairs(ref_pages) do
  finish(made, markdown.html(pages_of.markdown(index, made, link_name), links_of {}))
end

local function quoted(text) return '"' .. text:gsub('[\\"]', "\\%0"):gsub("</", "<\\/"):gsub("%c", " ")
  .. '"' end
local rows = {}
for _, source in ipairs(sources) do
  rows[#rows + 1] = ("[%s,%s,%s]"):format(quoted(source.title), quoted(source.file),
    quoted(source.path))
end
for _, entry in ipairs(pages_of.search(index, where)) do
  rows[#rows + 1] = ("[%s,%s,%s]"):format(quoted(entry[1]), quoted(entry[2]), quoted(entry[3]))
end
write("index.js", "const MRT_INDEX = [\n" .. table.concat(rows, ",\n") .. "];\n")
write("mrt.1", require "mrt.cli.man"())
for _, name in ipairs { "style.css", "manual.js" } do
  write(name, read(root .. "/manual/site/" .. name))
end

-- ---- checking --------------------------------------------------------------

local ids, dead = {}, {}
for file, html in pairs(written) do
  ids[file] = {}
  for id in html:gmatch 'id="([^"]+)"' do ids[file][id] = true end
end
for file, html in pairs(written) do
  for target in html:gmatch '<a[^>]- href="([^"]+)"' do
    if not target:find "^%a+:" then
      local to, hash = target:match "^([^#]*)#?(.*)$"
      to = to == "" and file or to
      if not ids[to] or hash ~= "" and not ids[to][hash] then
        dead[#dead + 1] = file .. ": " .. target
      end
    end
  end
end
table.sort(dead)
local count = 0
for _ in pairs(written) do count = count + 1 end
for _, line in ipairs(dead) do io.stderr:write("leads nowhere: ", line, "\n") end
print(("%d pages, %d names in %s"):format(count, #index.entries, out))
os.exit(#dead == 0)
