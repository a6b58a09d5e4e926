--- format.lua -- numbers as people read them
---
--- SPDX-License-Identifier: MIT

local format = {}

--- 1234567 -> "1,234,567".
---@param n integer
---@return string
function format.count(n)
  local text = ("%d"):format(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (text:gsub("^(%-?),", "%1"))
end

--- Bytes in binary units: 1536 -> "1.5 KiB".
---@param n integer  bytes
---@return string
function format.bytes(n)
  local units, unit = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" }, 1
  while n >= 1024 and unit < #units do
    n, unit = n / 1024, unit + 1
  end
  return (unit == 1 and "%d %s" or n < 10 and "%.2f %s" or "%.1f %s")
    :format(n, units[unit])
end

local units = { [""] = 1, B = 1, kB = 1e3, KB = 1e3, MB = 1e6, GB = 1e9,
  TB = 1e12, KiB = 2^10, MiB = 2^20, GiB = 2^30, TiB = 2^40 }

--- Read bytes as people write them: "6GiB", "1.5 GB", "2e9", 4096.
---@param text string|number
---@return integer? bytes  at least 1
---@return string? message  when it does not parse: what would
function format.read_bytes(text)
  local number, unit = tostring(text):match "^%s*([%d.]+[eE]?%+?%d*)%s*(%a*)%s*$"
  local scale = units[unit]
  local bytes = scale and tonumber(number) and tonumber(number) * scale
  if not bytes or bytes < 1 or bytes >= 2^62 then
    local shown = type(text) == "table" and "a table" or ("'%s'"):format(tostring(text))
    return nil, ("%s is not a number of bytes; 6GiB, 512 MiB, 2GB, 2e9 and "
      .. "4096 are"):format(shown)
  end
  return math.floor(bytes)
end

--- Seconds: 83.4 -> "1m 23s".
---@param seconds number
---@return string
function format.duration(seconds)
  local s = math.floor(seconds + 0.5)
  if s < 60 then return s .. "s" end
  if s < 3600 then return ("%dm %02ds"):format(s // 60, s % 60) end
  return ("%dh %02dm"):format(s // 3600, s % 3600 // 60)
end

--- A short time: 0.0123 -> "12.3 ms".
---@param seconds number
---@return string
function format.time(seconds)
  if seconds >= 100 then return format.duration(seconds) end
  for _, unit in ipairs { { 1, "s" }, { 1e-3, "ms" } } do
    if seconds >= unit[1] then
      return ("%.3g %s"):format(seconds / unit[1], unit[2])
    end
  end
  return ("%.3g us"):format(seconds * 1e6)
end

--- A rate: 15234.7 -> "15.2k".
---@param n number
---@return string
function format.rate(n)
  for _, unit in ipairs { { 1e15, "P" }, { 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" } } do
    if n >= unit[1] then return ("%.2f%s"):format(n / unit[1], unit[2]) end
  end
  return n >= 1e3 and ("%.1fk"):format(n / 1e3) or ("%.0f"):format(n)
end

--- Text with a "?" for each byte that is no UTF-8, which XML and JSON want.
---@param text string
---@return string
function format.utf8(text)
  local parts, from = {}, 1
  local length, bad = utf8.len(text)
  while not length do
    parts[#parts + 1] = text:sub(from, bad - 1)
    from = bad + 1
    length, bad = utf8.len(text, from)
  end
  parts[#parts + 1] = text:sub(from)
  return table.concat(parts, "?")
end

--- Text of at most so many characters: what is too long loses its end or, for
--- paths, its beginning.
---@param text string
---@param most integer
---@param from_left? boolean
---@return string
function format.shorten(text, most, from_left)
  text = format.utf8(text)
  if utf8.len(text) <= most then return text end
  if from_left then return "…" .. text:sub(utf8.offset(text, 1 - most)) end
  return text:sub(1, utf8.offset(text, most) - 1) .. "…"
end

return format
