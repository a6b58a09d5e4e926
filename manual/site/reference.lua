--- reference.lua -- the pages of the reference: one for each module
---
--- SPDX-License-Identifier: MIT

local escape = require "lua_code".escape
local markdown = require "markdown"
local shape = require "mrt.reference.shape"

local M = {}

--- The page and the place on it of an entry.
---@param pages table<mrt.reference.Entry, string>  entry -> page
---@param entry mrt.reference.Entry
---@return string
function M.address(pages, entry) return pages[entry] .. "#" .. entry.name end

-- The module that an entry's page is of: the longest that its name begins with.
local function module_of(index, entry)
  local name = entry.name
  while name do
    name = name:match "^(.*)[.:][%w_]+$"
    local found = name and index.by_name[name]
    if found and found.kind == "module" then return found end
  end
end

-- What a type or a method without a module of its own belongs to, by its file.
local function home_of(index, entry)
  local folder = (entry.file or ""):match "^([%w_]+)/"
  return folder and index.by_name["mrt." .. folder] or index.by_name.mrt
end

--- Which entries each page has, in order: {module, entries}.
---@param index mrt.reference.Index
---@return table[] pages  {title, file, module, entries}
---@return table<mrt.reference.Entry, string> where
function M.pages(index)
  local list, by_module, where = {}, {}, {}
  local function page_of(module, title)
    if not by_module[module] then
      local page = { title = title or module.name, file = "ref-" .. (title or module.name) .. ".html",
        module = module, entries = {} }
      by_module[module] = page
      list[#list + 1] = page
    end
    return by_module[module]
  end
  page_of(index.by_name.mrt)
  page_of(index.by_name.Tensor, "Tensor")
  for _, entry in ipairs(index.entries) do
    local page
    if entry.kind == "module" or entry.name == "Tensor" then
      page = page_of(entry)
    elseif entry.name:find "^Tensor[.:]" then
      page = page_of(index.by_name.Tensor)
    else
      local home = module_of(index, entry) or home_of(index, entry)
      page = page_of(home.kind == "module" and home or index.by_name.mrt)
    end
    if entry ~= page.module then table.insert(page.entries, entry) end
    where[entry] = page.file
  end
  return list, where
end

-- A type with links to the classes that it names.
local function type_html(text, link)
  local out, at = {}, 1
  while at <= #text do
    local from, past = text:find("mrt%.[%a_][%w_.]*[%w_]", at)
    if not from then break end
    local name = text:sub(from, past)
    local to = link(name)
    out[#out + 1] = escape(text:sub(at, from - 1))
    out[#out + 1] = to and ('<a href="%s">%s</a>'):format(to, escape(name)) or escape(name)
    at = past + 1
  end
  out[#out + 1] = escape(text:sub(at))
  return table.concat(out)
end

local function inline(text)
  local out, code = {}, false
  for piece, tick in text:gmatch "([^`]*)(`?)" do
    out[#out + 1] = code and "<code>" .. escape(piece) .. "</code>" or escape(piece)
    if tick == "`" then code = not code end
  end
  return table.concat(out)
end

local function section_html(section, link)
  local out = { ("<h4>%s</h4><dl>"):format(section.entry
    and ('<a href="%s">%s</a>'):format(link(section.title) or "#", escape(section.title))
    or escape(section.title)) }
  for _, row in ipairs(section.rows) do
    local name = escape(row.name)
    local to = row.entry and link(row.entry.name)
    if to then name = ('<a href="%s">%s</a>'):format(to, name) end
    out[#out + 1] = ("<dt>%s%s</dt><dd>%s</dd>"):format(name,
      row.type ~= "" and ' <i>' .. type_html(row.type, link) .. "</i>" or "", inline(row.text))
  end
  out[#out + 1] = "</dl>"
  return table.concat(out, "\n")
end

local function entry_markdown(index, entry, link)
  local s = shape.of(index, entry)
  local out = { ('\n<section class="entry" id="%s">'):format(escape(entry.name)),
    ("<h3>%s<small>%s</small></h3>"):format(escape(entry.name), entry.kind) }
  for _, signature in ipairs(s.signatures) do
    out[#out + 1] = ('<div class="sign">%s</div>'):format(escape(signature))
  end
  out[#out + 1] = "\n" .. markdown.of_comment(s.text) .. "\n"
  for _, section in ipairs(s.sections) do out[#out + 1] = section_html(section, link) end
  if s.detail then out[#out + 1] = "\n" .. markdown.of_comment(s.detail) .. "\n" end
  local also = entry.also and "also " .. escape(table.concat(entry.also, ", ")) .. " &middot; " or ""
  out[#out + 1] = ('<p class="from">%s%s</p></section>\n'):format(also,
    entry.file and ("lua/mrt/%s:%d"):format(escape(entry.file), entry.line) or "")
  return (table.concat(out, "\n"))
end

--- The page of a module, as Markdown with HTML between.
---@param index mrt.reference.Index
---@param page table
---@param link fun(name: string): string?
---@return string
function M.markdown(index, page, link)
  local module = page.module
  local s = shape.of(index, module)
  local out = { ('<h1 id="%s">%s</h1>\n'):format(escape(module.name), escape(page.title)), markdown.of_comment(s.text), "" }
  for _, section in ipairs(s.sections) do
    if section.title ~= "Methods" then out[#out + 1] = section_html(section, link) .. "\n" end
  end
  local groups = { { "Functions and classes" }, { "Methods" }, { "Types" } }
  for _, entry in ipairs(page.entries) do
    local at = entry.kind == "type" and 3 or (entry.kind == "method"
      or entry.name:find "^Tensor:") and 2 or 1
    table.insert(groups[at], entry)
  end
  for _, group in ipairs(groups) do
    if group[2] then
      out[#out + 1] = ("\n## %s\n\n<ul class=\"index\">"):format(group[1])
      for i = 2, #group do
        out[#out + 1] = ('<li><a href="#%s">%s</a></li>'):format(escape(group[i].name),
          escape((group[i].name:gsub("^mrt%.", ""))))
      end
      out[#out + 1] = "</ul>\n"
      for i = 2, #group do out[#out + 1] = entry_markdown(index, group[i], link) end
    end
  end
  return table.concat(out, "\n")
end

--- All names with their places and first sentences, for the search.
---@param index mrt.reference.Index
---@param where table<mrt.reference.Entry, string>
---@return {[1]: string, [2]: string, [3]: string}[]
function M.search(index, where)
  local list = {}
  for _, entry in ipairs(index.entries) do
    local to = M.address(where, entry)
    list[#list + 1] = { entry.name, to, shape.summary(entry) }
    for _, name in ipairs(entry.also or {}) do
      list[#list + 1] = { name, to, shape.summary(entry) }
    end
  end
  return list
end

return M
