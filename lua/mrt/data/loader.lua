--- loader.lua -- examples by number, in mini-batches, epoch after epoch
---
--- A loader knows how many examples there are and how to fetch some of them as
--- tensors; it decides which come next.  An epoch visits every example once, in
--- an order fixed by the seed and the number of the epoch.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local describe = require "mrt.util.describe"
local options = require "mrt.util.options"
local random = require "mrt.data.random"

---@class mrt.data.Loader
---@field count integer     examples in an epoch
---@field batch integer     examples in a mini-batch
---@field batches integer   mini-batches in an epoch
local Loader = {}
Loader.__index = Loader

-- What `for x, y in loader do` calls.
function Loader.__call()
  core.fail("value", "loader", "for x, y in loader:epoch() do ... end goes over an epoch; "
    .. "loader:next() is the next mini-batch")
end

local loader = {}

---@class mrt.data.LoaderOptions
---@field count integer
---@field batch integer
---@field fetch fun(indices: integer[], key: integer?): mrt.Tensor ...
---  `indices` count from 0; `key` is a number of the epoch's own
---@field expect? fun(indices: integer[], key: integer?)  these come next: begin to
---  read them; called once the mini-batch before is fetched
---@field shuffle boolean
---@field seed integer
---@field drop_last boolean  leave out what does not fill a mini-batch
---@field fresh? boolean     what `fetch` gives it makes anew, and keeps none of it

--- Make a loader.
---@param o mrt.data.LoaderOptions
---@return mrt.data.Loader
function loader.new(o)
  options.size("loader", "batch", o.batch)
  local full, rest = o.count // o.batch, o.count % o.batch
  local batches = full + (rest > 0 and not o.drop_last and 1 or 0)
  if batches == 0 then
    core.fail("value", "loader", ("%d examples do not fill a mini-batch of %d")
      :format(o.count, o.batch))
  end
  return setmetatable({ count = o.count, batch = o.batch, fetch = o.fetch,
    expect = o.expect, fresh = o.fresh and o.fetch,
    batches = batches, shuffle = o.shuffle, seed = o.seed, epochs = 0,
    position = 0 }, Loader)
end

--- Where to cut `count` tokens for a first part of this share.
---@param count integer
---@param share number  from 0 to 1
---@return integer border
function loader.border(count, share)
  if type(share) ~= "number" or not (share >= 0 and share <= 1) then
    core.fail("value", "split", "a share from 0 to 1 wanted, got " .. options.show(share))
  end
  return math.floor(count * share)
end

local function key_of(self, epoch)
  return random.new(self.seed ~ epoch * 0x632be59bd9b4e019):bits()
end

-- What mini-batch `position` is made of: indices, and the key of its epoch.
local function contents(self, epoch, position)
  local key = key_of(self, epoch)
  local order = self.shuffle and random.order(self.count, key)
  local first = position * self.batch
  local last = math.min(first + self.batch, self.count) - 1
  local indices = {}
  for i = first, last do indices[#indices + 1] = order and order(i) or i end
  return indices, self.shuffle and key or nil
end

-- Say what comes after mini-batch `position`, now that it has been fetched, and
-- hand that on.
local function announce(self, epoch, position, ...)
  local after = position + 1
  if after == self.batches then epoch, after = epoch + 1, 0 end
  local indices, key = contents(self, epoch, after)
  self.coming = { epoch = epoch, position = after, seed = self.seed, indices = indices,
    key = key }
  self.expect(indices, key)
  return ...
end

local function fetch_batch(self, epoch, position)
  local known = self.coming
  if not self.expect then return self.fetch(contents(self, epoch, position)) end
  if known and known.epoch == epoch and known.position == position
    and known.seed == self.seed then
    return announce(self, epoch, position, self.fetch(known.indices, known.key))
  end
  return announce(self, epoch, position, self.fetch(contents(self, epoch, position)))
end

--- Return the next mini-batch, for ever: after one epoch comes another, in
--- another order.
---
---     local x, y = loader:next()
---
--- Shapes: `[batch,...]` of each column.
---@return mrt.Tensor ...
function Loader:next()
  if self.position == self.batches then
    self.epochs, self.position = self.epochs + 1, 0
  end
  local position = self.position
  self.position = position + 1
  return fetch_batch(self, self.epochs, position)
end

--- Iterate over one epoch, from its beginning.
---
---     for x, y in loader:epoch() do print(step(x, y)) end
---
--- Where `next` has got to does not change.  Epochs are numbered from 0; the
--- default is the one that `next` is in.
---
--- Shapes: `[batch,...]` of each column.
--- Raises: an epoch below 0.
---@param number? integer
---@return fun(): mrt.Tensor ...
function Loader:epoch(number)
  if number ~= nil and not (math.type(number) == "integer" and number >= 0) then
    core.fail("value", "epoch", ("an epoch from 0 wanted, got %s"):format(options.show(number)))
  end
  local position, epoch = -1, number or self.epochs
  return function()
    position = position + 1
    if position < self.batches then return fetch_batch(self, epoch, position) end
  end
end

--- Return where `next` has got to, to go on from there later, in the middle of
--- an epoch too: three integers, whatever the size of the data.
---
---     local state = loader:state()
---@return {epoch: integer, position: integer, seed: integer}
function Loader:state()
  return { epoch = self.epochs, position = self.position, seed = self.seed }
end

--- Go on from a state that `state` returned.
---
--- Raises: a state that no loader of so many mini-batches can be in.
---
---     loader:load_state(state)
---@param state {epoch: integer, position: integer, seed: integer}
function Loader:load_state(state)
  for _, name in ipairs { "epoch", "position", "seed" } do
    if type(state) ~= "table" or math.type(state[name]) ~= "integer" then
      core.fail("value", "load_state", ("%s is missing"):format(name))
    end
  end
  if state.epoch < 0 or state.position < 0 or state.position > self.batches then
    core.fail("value", "load_state", ("position %d of epoch %d, an epoch has %d mini-batches")
      :format(state.position, state.epoch, self.batches))
  end
  self.epochs, self.position = state.epoch, state.position
  self.seed = state.seed
end

function Loader:__tostring()
  return ("loader of %s: %s of %d%s; epoch %d, %d taken"):format(
    describe.count(self.count, "example"), describe.count(self.batches, "mini-batch", "es"),
    self.batch, self.shuffle and ", shuffled" or "", self.epochs + 1, self.position)
end

local own_next, own_epoch = Loader.next, Loader.epoch

--- Whether what `next` and `epoch` of this loader give is the caller's alone, who may free it
--- when he has done with it: nobody else has seen it.
---@param self any
---@return boolean
function loader.gives_fresh(self)
  return getmetatable(self) == Loader and self.next == own_next
    and self.epoch == own_epoch and self.fetch == self.fresh
end

return loader
