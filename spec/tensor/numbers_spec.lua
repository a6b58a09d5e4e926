--- numbers_spec.lua -- values and gradients at the edges of what numbers can be
local mrt = require "mrt"

local function close(wanted, got)
  assert.is_true(math.abs(wanted - got) <= 1e-6 * math.max(1, math.abs(wanted)),
    wanted .. ", " .. got)
end

describe("at the edges", function()
  it("norms of zeros and deviations of constants have gradient 0", function()
    for _, p in ipairs { 1, 2, 3, 2.5, math.huge } do
      local x = mrt.zeros(3)
      assert.equal(0, x:norm(p):item())
      assert.same({ 0, 0, 0 }, mrt.grad(x:norm(p), x):totable())
      local rows = mrt.tensor { { 0., 0. }, { 3., 4. } }
      local dx = mrt.grad(rows:norm(p, 2):sum(), rows):totable()
      assert.same({ 0, 0 }, dx[1])
      local wanted = p == math.huge and { 0, 1 } or { (3 ^ p + 4 ^ p) ^ (1 / p - 1) * 3 ^ (p - 1),
        (3 ^ p + 4 ^ p) ^ (1 / p - 1) * 4 ^ (p - 1) }
      for i = 1, 2 do close(wanted[i], dx[2][i]) end
    end
    for _, dtype in ipairs { "f32", "f64", "bf16" } do
      local c = mrt.full({ 2, 4 }, 2.5, { dtype = dtype })
      assert.same({ { 0, 0, 0, 0 }, { 0, 0, 0, 0 } },
        mrt.grad(c:std(2):sum(), c):totable(), dtype)
      local d = mrt.grad(c:std(2):sum(), c)
      assert.same({ { 0, 0, 0, 0 }, { 0, 0, 0, 0 } }, mrt.grad(d:sum(), c):totable(), dtype)
      assert.equal(dtype, c:std(2).dtype)
    end
  end)

  it("a NaN stays one through norm and std", function()
    local x = mrt.tensor { 0 / 0, 1 }
    for _, y in ipairs { x:norm(), x:std(), x:norm(3) } do
      local v = y:item()
      assert.is_true(v ~= v)
      local dx = mrt.grad(y, x):totable()
      assert.is_true(dx[1] ~= dx[1])
    end
  end)
end)
