--- plan_cluster.lua -- `mrt plan --cluster NAME:N script.lua`
--
-- SPDX-License-Identifier: MIT

local device = require "mrt.device"
local format = require "mrt.util.format"

local on_cluster = {}

--- Take the machine's figures, and a mesh where none is given: what is wrong, or nil.
---@param options table  of `mrt plan`; gets `machine` and `mesh`
---@return string?
function on_cluster.prepare(options)
  local ok, cluster = pcall(require "mrt.cluster", options.cluster)
  if not ok then return cluster.message or tostring(cluster) end
  local mesh = options.mesh or { word = "data=" .. cluster.devices,
    given = { data = cluster.devices } }
  local ranks = require "mrt.mesh".read(mesh.given).ranks
  if ranks ~= cluster.devices then
    return ("--mesh %s has %d ranks, --cluster %s has %d devices"):format(mesh.word, ranks,
      options.cluster, cluster.devices)
  end
  options.machine, options.mesh = cluster, mesh
  device.use(require "mrt.cluster.profile" (cluster))
end

--- The mesh that is laid over the script; a search lays none.
---@param options table
---@return mrt.MeshOptions?
function on_cluster.mesh(options)
  return not options.find and options.mesh and options.mesh.given or nil
end

--- Print the step and each kind of rank: what is wrong, or nil.
---@param options table
---@param plan mrt.Plan
---@param step mrt.Compiled
---@param ... any  as for the call
---@return string?
function on_cluster.show(options, plan, step, ...)
  local mesh = require "mrt.mesh".read(step.given.mesh or { data = options.machine.devices })
  local plans, order = { plan }, nil
  if mesh.size.pipeline > 1 then
    local all = require "mrt.pipeline".plan(step, mesh.size.pipeline, ...)
    plans, order = all.plans, all.order
  end
  local told = require "mrt.cluster.planned".step(options.machine, mesh.size, plans, order)
  local text, over = require "mrt.plan.report.cluster" (options.machine, options.cluster, mesh,
    plans, told)
  io.stdout:write(text, "\n")
  if over > 0 then
    return ("a rank takes %s more than a device has"):format(format.bytes(over))
  end
end

return on_cluster
