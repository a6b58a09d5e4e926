-- make.lua -- samples of full and arange, and of what the random ones refuse

local function full(_, options)
  local n, data = 1, {}
  for _, d in ipairs(options.shape) do
    n = n * d
  end
  for i = 1, n do
    data[i] = options.value
  end
  return { { dims = options.shape, data = data } }
end

local function arange(_, options)
  local start, step, data = options.start or 0, options.step or 1, {}
  local n = math.ceil((options.stop - start) / step)
  for i = 1, n do
    data[i] = start + (i - 1) * step
  end
  return { { dims = { n }, data = data } }
end

local filled, ranges = {}, {}
for _, dtype in ipairs { "f32", "f64", "i64", "i32", "u8", "f16", "bf16", "f8_e4m3",
  "f8_e5m2" } do
  filled[#filled + 1] = { options = { shape = { 3, 67 }, value = 7, dtype = dtype } }
end
for _, shape in ipairs { {}, { 1 }, { 0 }, { 2, 0, 3 }, { 5000 } } do
  filled[#filled + 1] = { options = { shape = shape, value = -2.5 } }
end
filled[#filled + 1] = { options = { shape = { 2 }, value = 1, dtype = "bool" } }
for _, dtype in ipairs { "f32", "f64", "i64", "i32", "u8" } do
  ranges[#ranges + 1] = { options = { stop = 100, dtype = dtype } }
  ranges[#ranges + 1] = { options = { start = 9, stop = 0, step = -2, dtype = dtype } }
  ranges[#ranges + 1] = { options = { start = 3, stop = 3, dtype = dtype } }
end
ranges[#ranges + 1] = { options = { start = -1, stop = 1, step = 0.25 } }
ranges[#ranges + 1] = { options = { stop = 9000, dtype = "i64" } }

local function bad(options, code, match)
  return { options = options, code = code, match = match }
end

return {
  { op = "full", grad = false, cases = filled, oracle = full,
    bad = {
      bad({ shape = { 2 }, value = 0.5, dtype = "i32" }, "value", "0.5"),
      bad({ shape = { 2 }, value = 256, dtype = "u8" }, "value", "256"),
      bad({ shape = { -1 }, value = 1 }, "shape"),
    } },
  { op = "arange", grad = false, cases = ranges, oracle = arange,
    bad = {
      bad({ stop = 5, step = 0 }, "value", "steps of 0"),
      bad({ stop = 5, step = -1 }, "value", "steps of -1"),
      bad({ stop = 300, dtype = "u8" }, "value", "299"),
      bad({ stop = 3, step = 0.5, dtype = "i32" }, "value"),
      bad({ stop = 2, dtype = "bool" }, "dtype", "bool"),
      bad({ stop = math.huge }, "value"),
    } },
  { op = "rand", grad = false, oracle = false,
    cases = { { options = { shape = { 3, 67 } } }, { options = { shape = { 0 } } } },
    bad = { bad({ shape = { 2 }, dtype = "i64" }, "dtype", "i64") } },
  { op = "randn", grad = false, oracle = false,
    cases = { { options = { shape = { 3, 67 } } }, { options = { shape = {} } } },
    bad = { bad({ shape = { 2 }, dtype = "bool" }, "dtype", "bool") } },
  { op = "randint", grad = false, oracle = false,
    cases = { { options = { shape = { 3, 67 }, high = 5 } } },
    bad = {
      bad({ shape = { 2 }, high = 5, dtype = "f32" }, "dtype", "f32"),
      bad({ shape = { 2 }, low = 5, high = 5 }, "value", "low 5"),
      bad({ shape = { 2 }, high = 300, dtype = "u8" }, "value", "299"),
    } },
  { op = "dropout", grad = false, oracle = false,
    cases = { { inputs = { { dims = { 3, 67 } } }, options = { p = 0.25 } } },
    bad = {
      { inputs = { { dims = { 2 } } }, options = { p = 1.5 }, code = "value", match = "1.5" },
      { inputs = { { dims = { 2 }, dtype = "i64" } }, options = {}, code = "dtype" },
    } },
}
