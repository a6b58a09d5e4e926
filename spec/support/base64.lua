--- base64.lua -- bytes of base64
---
--- SPDX-License-Identifier: MIT

---@param text string
---@return string
return function(text)
  local digits, bits, have, out = {}, 0, 0, {}
  local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
  for i = 1, 64 do digits[alphabet:byte(i)] = i - 1 end
  for i = 1, #text do
    local digit = digits[text:byte(i)]
    if digit then
      bits, have = bits << 6 | digit, have + 6
      if have >= 8 then
        have = have - 8
        out[#out + 1] = string.char(bits >> have & 255)
      end
    end
  end
  return table.concat(out)
end
