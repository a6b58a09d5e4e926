/* describe.c -- plans as Lua tables
 *
 * SPDX-License-Identifier: MIT */
#include "fields.h"

/* ---- plans --------------------------------------------------------------- */

/* {{name = "cse", nodes = 12}, ...}: what each optimisation left. */
static void set_passes(lua_State *L, const mrt_plan_info *info) {
  lua_newtable(L);
  for (int i = 0; i < MRT_REWRITE_COUNT; i++) {
    lua_createtable(L, 0, 2);
    set_text(L, "name", mrt_plan_pass_name(i));
    set_integer(L, "nodes", info->nodes_after[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "passes");
}

static int plan_info(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  const mrt_plan *plan = mrt_lua_check_plan(L, m, 1);
  mrt_plan_info i = mrt_plan_get_info(plan);
  bool queues = mrt_context_get_info(mrt_plan_context(plan)).queues;
  lua_createtable(L, 0, 21);
  set_integer(L, "peak", (int64_t)i.peak);
  set_integer(L, "persistent", (int64_t)i.persistent);
  set_integer(L, "transient", (int64_t)i.transient);
  if (i.slots) set_integer(L, "slots", (int64_t)i.slots);
  set_integer(L, "outputs", (int64_t)i.outputs);
  set_integer(L, "lower_bound", (int64_t)i.lower_bound);
  set_integer(L, "working_set", (int64_t)i.working_set);
  set_integer(L, "order_free_bound", (int64_t)i.order_free_bound);
  if (i.unlinked) set_integer(L, "unlinked", i.unlinked);
  if (i.compressed) {
    set_integer(L, "compressed", (int64_t)i.compressed);
    set_integer(L, "compressed_to", (int64_t)i.compressed_to);
  }
  if (i.kept_peak) set_integer(L, "kept_peak", (int64_t)i.kept_peak);
  set_integer(L, "inputs", (int64_t)i.inputs);
  set_integer(L, "swapped", (int64_t)i.swapped);
  set_integer(L, "input_count", i.inputs_count);
  set_integer(L, "output_count", i.outputs_count);
  set_integer(L, "nodes_traced", i.nodes_traced);
  set_integer(L, "nodes", i.nodes);
  set_integer(L, "peak_step", i.peak_step + 1);
  set_number(L, "flops", i.flops);
  set_number(L, "seconds", i.seconds);
  set_number(L, "stall", i.stall);
  set_number(L, "wire", i.wire);
  set_integer(L, "collectives", i.collectives);
  set_integer(L, "hosted", i.hosted);
  if (i.hosted && queues) set_truth(L, "unrecorded", true);
  set_integer(L, "staging", (int64_t)i.staging);
  set_integer(L, "copied_out", (int64_t)i.copied_out);
  set_integer(L, "copied_in", (int64_t)i.copied_in);
  set_integer(L, "hosted_in", (int64_t)i.hosted_in);
  set_integer(L, "hosted_out", (int64_t)i.hosted_out);
  set_passes(L, &i);
  return 1;
}

static int plan_device(lua_State *L) {
  const mrt_plan *plan = mrt_lua_check_plan(L, mrt_binding_get(L), 1);
  mrt_lua_push_device(L, mrt_plan_get_device(plan));
  return 1;
}

static void push_step(lua_State *L, const mrt_plan *plan, int i) {
  mrt_step_info s = mrt_plan_get_step(plan, i);
  lua_createtable(L, 0, 16);
  set_text(L, "op", s.op);
  set_text(L, "file", s.file);
  set_text(L, "module", s.module);
  set_integer(L, "line", s.line);
  set_integer(L, "layer", s.layer);
  set_truth(L, "backward", s.backward);
  set_truth(L, "recomputed", s.recomputed);
  if (s.hosted) set_truth(L, "hosted", true);
  if (s.in_tier) set_truth(L, "in_tier", true);
  if (s.accumulate != MRT_DTYPE_COUNT)
    set_text(L, "accumulate", mrt_dtype_name(s.accumulate));
  set_text(L, "class", s.cost);
  set_number(L, "time", s.seconds);
  set_number(L, "flops", s.flops);
  set_number(L, "bytes", s.bytes);
  set_number(L, "speed", mrt_plan_step_speed(plan, i));
  set_integer(L, "live", (int64_t)s.live);
  if (s.comm >= 0) set_integer(L, "comm", s.comm);
}

static int plan_steps(lua_State *L) {
  const mrt_plan *plan = mrt_lua_check_plan(L, mrt_binding_get(L), 1);
  int n = mrt_plan_get_info(plan).nodes;
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    push_step(L, plan, i);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* Append a 1-based number of a value to the list at field `key` on top. */
static void append(lua_State *L, const char *key, int value) {
  lua_getfield(L, -1, key);
  lua_pushinteger(L, value + 1);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_pop(L, 1);
}

static void set_list(lua_State *L, const char *key) {
  lua_newtable(L);
  lua_setfield(L, -2, key);
}

static void push_operands(lua_State *L, const mrt_plan *plan, int step) {
  lua_createtable(L, 0, 3);
  set_list(L, "reads");
  set_list(L, "writes");
  set_list(L, "overwritable");
  for (int i = 0;; i++) {
    mrt_operand_info o = mrt_plan_get_operand(plan, step, i);
    if (o.value < 0) break;
    append(L, o.written ? "writes" : "reads", o.value);
    if (o.overwritable) append(L, "overwritable", o.value);
  }
}

static int plan_operands(lua_State *L) {
  const mrt_plan *plan = mrt_lua_check_plan(L, mrt_binding_get(L), 1);
  int n = mrt_plan_get_info(plan).nodes;
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    push_operands(L, plan, i);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const char *kind_name(mrt_buffer_kind kind) {
  static const char *const names[] = {
    [MRT_BUFFER_INPUT] = "input",       [MRT_BUFFER_VARIABLE] = "variable",
    [MRT_BUFFER_CONSTANT] = "constant", [MRT_BUFFER_ACTIVATION] = "activation",
    [MRT_BUFFER_GRADIENT] = "gradient", [MRT_BUFFER_WORKSPACE] = "workspace",
    [MRT_BUFFER_OUTPUT] = "output",     [MRT_BUFFER_SWAPPED] = "swapped",
  };
  return names[kind];
}

/* Steps are 1-based here. */
static void push_value(lua_State *L, const mrt_plan *plan, int i) {
  mrt_buffer_info v = mrt_plan_get_buffer(plan, i);
  char type[256];
  mrt_type_print(&v.type, type, sizeof type);
  lua_createtable(L, 0, 13);
  set_text(L, "kind", kind_name(v.kind));
  set_text(L, "op", v.op);
  set_text(L, "name", v.name);
  set_text(L, "class", v.cost);
  set_text(L, "file", v.file);
  set_text(L, "module", v.module);
  set_integer(L, "line", v.line);
  set_text(L, "type", type);
  set_integer(L, "bytes", (int64_t)v.bytes);
  set_integer(L, "offset", (int64_t)v.offset);
  set_integer(L, "first", v.first + 1);
  set_integer(L, "last", v.last + 1);
  if (v.tier >= 0) set_integer(L, "tier", v.tier + 1);
  if (v.id) set_integer(L, "id", (int64_t)v.id);
  if (v.here) set_truth(L, "here", true);
}

static int plan_values(lua_State *L) {
  const mrt_plan *plan = mrt_lua_check_plan(L, mrt_binding_get(L), 1);
  int n = mrt_plan_buffer_count(plan);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    push_value(L, plan, i);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- stages -------------------------------------------------------------- */

static int free_stage(lua_State *L) {
  mrt_stage **stage = lua_touserdata(L, 1);
  mrt_stage_free(*stage);
  *stage = NULL;
  return 0;
}

/* Push the stage numbered by argument 2, from 1, owned by a userdata. */
static mrt_stage *push_stage(lua_State *L, mrt_binding *m) {
  const mrt_plan *plan = mrt_lua_check_plan(L, m, 1);
  lua_Integer i = luaL_checkinteger(L, 2);
  luaL_argcheck(L, i >= 1 && i < 1000, 2, "no stage");
  mrt_stage **stage = lua_newuserdatauv(L, sizeof *stage, 0);
  *stage = NULL;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, free_stage);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  MRT_CHECK(L, m, "plan", mrt_stage_new(plan, (int)i - 1, stage));
  return *stage;
}

static void push_node(lua_State *L, const mrt_stage *stage, int i) {
  mrt_node_info n = mrt_stage_get_node(stage, i);
  lua_createtable(L, 0, 8);
  set_text(L, "op", n.op);
  set_text(L, "file", n.file);
  set_text(L, "module", n.module);
  set_integer(L, "line", n.line);
  set_truth(L, "backward", n.backward);
  set_truth(L, "recomputed", n.recomputed);
  set_integer(L, "updates", n.updates);
  set_list(L, "reads");
  set_list(L, "writes");
  for (int k = 0; k < n.nin + n.nout; k++)
    append(L, k < n.nin ? "reads" : "writes",
           mrt_stage_get_operand(stage, i, k));
}

static void push_graph_value(lua_State *L, const mrt_stage *stage, int i) {
  mrt_graph_value_info v = mrt_stage_get_value(stage, i);
  char type[256];
  mrt_type_print(&v.type, type, sizeof type);
  lua_createtable(L, 0, 5);
  set_text(L, "kind", kind_name(v.kind));
  set_text(L, "name", v.name);
  set_text(L, "type", type);
  set_integer(L, "bytes", (int64_t)v.bytes);
  if (v.block >= 0) set_integer(L, "block", v.block + 1);
  if (v.original >= 0) set_integer(L, "original", v.original + 1);
  if (v.outer > 0) set_integer(L, "outer", v.outer);
}

/* stage(plan, i) -> {nodes = list, values = list, outputs = list}. */
static int plan_stage(lua_State *L) {
  const mrt_stage *stage = push_stage(L, mrt_binding_get(L));
  int nodes = mrt_stage_node_count(stage);
  int values = mrt_stage_value_count(stage);
  lua_createtable(L, 0, 3);
  set_list(L, "outputs");
  for (int i = 0; mrt_stage_get_output(stage, i) >= 0; i++)
    append(L, "outputs", mrt_stage_get_output(stage, i));
  lua_createtable(L, nodes, 0);
  for (int i = 0; i < nodes; i++) {
    push_node(L, stage, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "nodes");
  lua_createtable(L, values, 0);
  for (int i = 0; i < values; i++) {
    push_graph_value(L, stage, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "values");
  return 1;
}

/* blocks(plan) -> which block of memory each output has; several may have one. */
static int plan_blocks(lua_State *L) {
  const mrt_plan *plan = mrt_lua_check_plan(L, mrt_binding_get(L), 1);
  lua_newtable(L);
  for (int i = 0; mrt_plan_output_block(plan, i) >= 0; i++) {
    lua_pushinteger(L, mrt_plan_output_block(plan, i) + 1);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* stages() -> their names. */
static int plan_stages(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; mrt_stage_name(i); i++) {
    lua_pushstring(L, mrt_stage_name(i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* Text of the core's, freed with the userdata that holds it. */
typedef struct printed_text {
  mrt_context *ctx;
  char *text;
} printed_text;

static int free_text(lua_State *L) {
  printed_text *t = lua_touserdata(L, 1);
  if (t->text) mrt_text_free(t->ctx, t->text);
  t->text = NULL;
  return 0;
}

static int push_text(lua_State *L, mrt_binding *m, const mrt_stage *stage) {
  printed_text *t = lua_newuserdatauv(L, sizeof *t, 0);
  *t = (printed_text){ m->ctx, NULL };
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, free_text);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  MRT_CHECK(L, m, "plan", mrt_stage_print(stage, &t->text));
  lua_pushstring(L, t->text);
  mrt_text_free(t->ctx, t->text);
  t->text = NULL;
  return 1;
}

/* graph(plan, i) -> the stage as text. */
static int plan_graph(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  return push_text(L, m, push_stage(L, m));
}

const luaL_Reg mrt_lua_plan_descriptions[] = {
  { "info", plan_info },         { "steps", plan_steps },
  { "operands", plan_operands }, { "values", plan_values },
  { "blocks", plan_blocks },     { "graph", plan_graph },
  { "stage", plan_stage },       { "stages", plan_stages },
  { "device", plan_device },     { NULL, NULL },
};
