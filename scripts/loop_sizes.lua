-- loop_sizes.lua: instructions in the loops of kernels that use matrix units.
--
--   nvcc -std=c++17 -O3 -arch=sm_90 -Icore -Ikernels/cuda -cubin -o x.cubin \
--     kernels/cuda/attention_mma.cu
--   cuobjdump -sass x.cubin | c++filt | lua5.4 scripts/loop_sizes.lua
--
-- A line for each kernel: the smallest loop with matrix products in it, from
-- the instruction that it jumps back to up to the jump; how many of these run at
-- least in a turn that leaves out no product and no copy, as where all is seen; and
-- how many are products.  What a compiler moves behind the loop is not counted.
-- Kernels of attention_wgmma.cu are there with -arch=sm_90a.

local kernels, kernel = {}, nil
for line in io.lines() do
  local name = line:match "Function : (.*)"
  local at, text = line:match "^%s*/%*(%x%x%x%x+)%*/%s+(.-);"
  if name then
    kernel = { name = name:gsub("%(anonymous namespace%)::", ""):match "^[^(]*" }
    kernels[#kernels + 1] = kernel
  elseif at and kernel then
    kernel[#kernel + 1] = { at = tonumber(at, 16), text = text }
  end
end

-- From i to n by the shortest way; jumps over products or copies are not taken.
local function shortest(k, index, i, n)
  local best, needed = { [i] = 1 }, {}
  local count = 0
  for j = i, n do
    needed[j] = count
    if k[j].text:find "HG?MMA" or k[j].text:find "LDGSTS" then count = count + 1 end
  end
  local function reach(j, length)
    if j <= n and (not best[j] or best[j] > length) then best[j] = length end
  end
  for j = i, n - 1 do
    local text, length = k[j].text, best[j]
    local to = text:find "BRA" and index[tonumber(text:match "0x(%x+)%s*$" or "", 16)]
    if length and to and to > j and to <= n and needed[to] == needed[j] then
      reach(to, length + 1)
    end
    if length and not (text:find "BRA" and not text:find "^@" and not text:find "BRA P") then
      reach(j + 1, length + 1)
    end
  end
  return best[n]
end

for _, k in ipairs(kernels) do
  local index, products, best = {}, { [0] = 0 }, nil
  for i, x in ipairs(k) do
    index[x.at] = i
    products[i] = products[i - 1] + (x.text:find "HG?MMA" and 1 or 0)
    local to = x.text:find "BRA" and x.text:match "0x(%x+)%s*$"
    local from = to and index[tonumber(to, 16)]
    local n = from and products[i] - products[from - 1] or 0
    if n > 0 and (not best or i - from + 1 < best.size) then
      best = { size = i - from + 1, products = n, from = from, to = i }
    end
  end
  if best then
    local least = shortest(k, index, best.from, best.to) or best.size
    print(("%6d  %6d run  %4d products  %s"):format(best.size, least, best.products, k.name))
  end
end
