-- loop_sizes.lua: instructions in the loops of kernels that use matrix units.
--
--   nvcc -std=c++17 -O3 -arch=sm_90 -Icore -Ikernels/cuda -cubin -o x.cubin \
--     kernels/cuda/attention_mma.cu
--   cuobjdump -sass x.cubin | c++filt | lua5.4 scripts/loop_sizes.lua
--
-- A line for each kernel: the smallest loop with matrix products in it, from
-- the instruction that it jumps back to up to the jump, and how many of these
-- are products.  What a compiler moves behind the loop is not counted.

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

for _, k in ipairs(kernels) do
  local index, products, best = {}, { [0] = 0 }, nil
  for i, x in ipairs(k) do
    index[x.at] = i
    products[i] = products[i - 1] + (x.text:find "HMMA" and 1 or 0)
    local to = x.text:find "BRA" and x.text:match "0x(%x+)%s*$"
    local from = to and index[tonumber(to, 16)]
    local n = from and products[i] - products[from - 1] or 0
    if n > 0 and (not best or i - from + 1 < best.size) then
      best = { size = i - from + 1, products = n }
    end
  end
  if best then print(("%6d  %4d products  %s"):format(best.size, best.products, k.name)) end
end
