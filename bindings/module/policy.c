/* policy.c -- checkpoint, precision and swap policies written in Lua
 *
 * The core asks about all activations, or nodes, at once; they become a list of
 * tables that the function answers in place.  Variables are asked about one by one.
 *
 * SPDX-License-Identifier: MIT */
#include "fields.h"

#include <string.h>

/* What the protected function gets. */
typedef struct question {
  mrt_lua_policy_call *call;
  mrt_checkpoint *asked;
} question;

static const char *const choices[] = { "open", "keep", "recompute", "swap" };

/* A table with what all kinds of questions tell of a result. */
static void push_about(lua_State *L, int fields, const char *name,
                       const mrt_type *t, size_t bytes, const char *file,
                       int line, const char *module) {
  char type[256];
  mrt_type_print(t, type, sizeof type);
  lua_createtable(L, 0, fields);
  set_text(L, "name", name);
  set_text(L, "type", type);
  set_text(L, "file", file);
  set_integer(L, "line", line);
  set_text(L, "module", module);
  set_integer(L, "bytes", (int64_t)bytes);
}

/* Of what a node computes, besides. */
static void push_work(lua_State *L, const char *op, const char *cost, int layer,
                      double flops) {
  set_text(L, "op", op);
  set_text(L, "class", cost);
  set_integer(L, "layer", layer);
  set_number(L, "flops", flops);
}

static void push_activation(lua_State *L, const mrt_activation *a) {
  push_about(L, 21, a->name, &a->type, a->bytes, a->file, a->line, a->module);
  push_work(L, a->op, a->cost, a->layer, a->flops);
  set_number(L, "time", a->seconds);
  set_integer(L, "first_use", a->first_use + 1);
  set_integer(L, "last_use", a->last_use + 1);
  set_truth(L, "saved", a->saved);
  set_integer(L, "last_layer", a->last_layer);
  set_truth(L, "boundary", a->last_layer > a->layer);
  set_truth(L, "region", a->region);
  set_integer(L, "segment", a->segment);
  set_text(L, "choice", choices[a->choice]);
}

static void push_question(lua_State *L, const mrt_checkpoint *c) {
  lua_createtable(L, c->count, 3);
  set_integer(L, "layers", c->layers);
  set_integer(L, "saved", (int64_t)c->saved);
  lua_createtable(L, 0, c->variable_count);
  for (int i = 0; i < c->variable_count; i++)
    set_truth(L, c->variables[i], true);
  lua_setfield(L, -2, "variables");
  for (int i = 0; i < c->count; i++) {
    push_activation(L, &c->activations[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* The answers of mrt.policy, which has checked what users say. */
static void read_answer(lua_State *L, mrt_activation *a) {
  lua_getfield(L, -1, "choice");
  lua_getfield(L, -2, "priority");
  lua_getfield(L, -3, "segment");
  const char *choice = lua_tostring(L, -3);
  for (int i = 0; choice && i < 4; i++)
    if (strcmp(choice, choices[i]) == 0) a->choice = (mrt_choice)i;
  a->priority = lua_tonumber(L, -2);
  a->segment = (int)lua_tointeger(L, -1);
  lua_pop(L, 3);
}

/* kept, no_recompute = function(list): its answers are in the list's fields. */
static int ask(lua_State *L) {
  question *q = lua_touserdata(L, 1);
  lua_pushvalue(L, 2);
  push_question(L, q->asked);
  lua_pushvalue(L, -1);
  lua_insert(L, -3); /* list, function, list */
  lua_call(L, 1, 2);
  q->asked->no_recompute = lua_toboolean(L, -1);
  if (lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 0)
    q->asked->kept = (size_t)lua_tointeger(L, -2);
  lua_pop(L, 2);
  for (int i = 0; i < q->asked->count; i++) {
    lua_rawgeti(L, -1, i + 1);
    read_answer(L, &q->asked->activations[i]);
    lua_pop(L, 1);
  }
  return 0;
}

/* Run answer(question, the policy's function); its error is carried. */
static mrt_status protect(const mrt_lua_policy_call *call, lua_CFunction answer,
                          void *question) {
  lua_State *L = call->L;
  if (!lua_checkstack(L, 4)) return MRT_ENOMEM;
  lua_pushcfunction(L, answer);
  lua_pushlightuserdata(L, question);
  lua_pushvalue(L, call->function);
  if (lua_pcall(L, 2, 0, 0) == LUA_OK) return MRT_OK;
  lua_rawsetp(L, LUA_REGISTRYINDEX, &call->m->carried);
  call->m->carried = true;
  return MRT_EVALUE;
}

mrt_status mrt_lua_policy(void *user, mrt_checkpoint *asked) {
  question q = { user, asked };
  return protect(user, ask, &q);
}

/* ---- precision ----------------------------------------------------------- */

static void push_computation(lua_State *L, const mrt_computation *c) {
  push_about(L, 12, c->name, &c->type, mrt_type_bytes(&c->type), c->file,
             c->line, c->module);
  push_work(L, c->op, c->cost, c->layer, c->flops);
  set_text(L, "width", c->width);
  set_truth(L, "backward", c->backward);
  set_truth(L, "boundary", c->boundary);
}

/* A dtype named in field `key` of the table on top, if it is there. */
static void read_dtype(lua_State *L, const char *key, mrt_dtype *dtype) {
  if (lua_getfield(L, -1, key) == LUA_TSTRING)
    *dtype = mrt_dtype_find(lua_tostring(L, -1));
  lua_pop(L, 1);
}

/* function(list): its answers are in the list's fields. */
static int ask_precision(lua_State *L) {
  mrt_precision *p = *(mrt_precision **)lua_touserdata(L, 1);
  lua_createtable(L, p->count, 1);
  for (int i = 0; i < p->count; i++) {
    push_computation(L, &p->nodes[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushvalue(L, -1);
  lua_insert(L, -3); /* list, function, list */
  lua_call(L, 1, 0);
  read_dtype(L, "keep", &p->keep);
  for (int i = 0; i < p->count; i++) {
    lua_rawgeti(L, -1, i + 1);
    read_dtype(L, "compute", &p->nodes[i].compute);
    read_dtype(L, "gradient", &p->nodes[i].gradient);
    read_dtype(L, "output", &p->nodes[i].output);
    read_dtype(L, "accumulate", &p->nodes[i].accumulate);
    lua_getfield(L, -1, "scaled");
    p->nodes[i].scaled = lua_toboolean(L, -1);
    lua_pop(L, 1);
    lua_pop(L, 1);
  }
  return 0;
}

mrt_status mrt_lua_precision_policy(void *user, mrt_precision *p) {
  return protect(user, ask_precision, &p);
}

static void push_site(lua_State *L, const mrt_site *s) {
  char type[256];
  mrt_type_print(&s->type, type, sizeof type);
  lua_createtable(L, 0, 8);
  set_text(L, "op", s->op);
  set_text(L, "name", s->name);
  set_text(L, "file", s->file);
  set_text(L, "module", s->module);
  set_integer(L, "line", s->line);
  set_integer(L, "layer", s->layer);
  set_truth(L, "backward", s->backward);
  set_text(L, "type", type);
  set_text(L, "dtype", mrt_dtype_name(s->dtype));
}

typedef struct site_list {
  const mrt_site *sites;
  int count;
} site_list;

/* delayed = {sites = function(self, list)} */
static int tell_sites(lua_State *L) {
  const site_list *all = lua_touserdata(L, 1);
  lua_getfield(L, 2, "sites");
  lua_pushvalue(L, 2);
  lua_createtable(L, all->count, 0);
  for (int i = 0; i < all->count; i++) {
    push_site(L, &all->sites[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_call(L, 2, 0);
  return 0;
}

mrt_status mrt_lua_sites(void *user, const mrt_site *sites, int count) {
  site_list all = { sites, count };
  return protect(user, tell_sites, &all);
}

/* ---- compress ------------------------------------------------------------ */

static void push_compressible(lua_State *L, const mrt_compressible *v) {
  push_about(L, 10, v->name, &v->type, v->bytes, v->file, v->line, v->module);
  set_text(L, "op", v->op);
  set_integer(L, "layer", v->layer);
  set_text(L, "dtype", mrt_dtype_name(v->type.dtype));
  set_text(L, "refused", v->refused);
}

/* The format named in field `format` of the table on top, if it is there. */
static mrt_compress_format read_format(lua_State *L) {
  int found = MRT_COMPRESS_NONE;
  lua_getfield(L, -1, "format");
  const char *name = lua_tostring(L, -1);
  for (int f = 0; name && f < MRT_COMPRESS_COUNT; f++)
    if (strcmp(name, mrt_compress_format_name((mrt_compress_format)f)) == 0)
      found = f;
  lua_pop(L, 1);
  return (mrt_compress_format)found;
}

/* function(list): its answers are in the list's fields. */
static int ask_compress(lua_State *L) {
  mrt_compression *c = *(mrt_compression **)lua_touserdata(L, 1);
  lua_createtable(L, c->count, 0);
  for (int i = 0; i < c->count; i++) {
    push_compressible(L, &c->values[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushvalue(L, -1);
  lua_insert(L, -3); /* list, function, list */
  lua_call(L, 1, 0);
  for (int i = 0; i < c->count; i++) {
    lua_rawgeti(L, -1, i + 1);
    c->values[i].format = read_format(L);
    lua_pop(L, 1);
  }
  return 0;
}

mrt_status mrt_lua_compress_policy(void *user, mrt_compression *c) {
  return protect(user, ask_compress, &c);
}

/* ---- place ---------------------------------------------------------------- */

static void push_block(lua_State *L, const mrt_placed *b) {
  lua_createtable(L, 0, 6);
  set_text(L, "op", b->op);
  set_text(L, "name", b->name);
  set_integer(L, "bytes", (int64_t)b->bytes);
  set_integer(L, "align", (int64_t)b->align);
  set_integer(L, "first", b->first + 1);
  set_integer(L, "last", b->last + 1);
}

/* function(list) -> list of offsets, height: mrt.policy has checked what they
 * are. */
static int ask_place(lua_State *L) {
  mrt_placing *p = *(mrt_placing **)lua_touserdata(L, 1);
  lua_createtable(L, p->count, 1);
  set_integer(L, "steps", p->steps);
  for (int i = 0; i < p->count; i++) {
    push_block(L, &p->blocks[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_call(L, 1, 2);
  p->height = (size_t)lua_tointeger(L, -1);
  for (int i = 0; i < p->count; i++) {
    lua_rawgeti(L, -2, i + 1);
    p->blocks[i].offset = (size_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  return 0;
}

mrt_status mrt_lua_place_policy(void *user, mrt_placing *p) {
  return protect(user, ask_place, &p);
}

/* ---- variables ----------------------------------------------------------- */

typedef struct variable_question {
  const mrt_variable_info *variable;
  int *swap;
} variable_question;

/* swap = function(variable) */
static int ask_variable(lua_State *L) {
  variable_question *q = lua_touserdata(L, 1);
  const mrt_variable_info *v = q->variable;
  push_about(L, 9, v->name, &v->type, v->bytes, v->file, v->line, NULL);
  set_text(L, "role", v->weight ? "weight" : "optimizer");
  set_integer(L, "id", (int64_t)v->id);
  set_integer(L, "first_use", v->first + 1);
  set_integer(L, "last_use", v->last + 1);
  lua_call(L, 1, 1);
  *q->swap = lua_isinteger(L, -1)   ? (int)lua_tointeger(L, -1) - 1
             : lua_toboolean(L, -1) ? MRT_SWAP_ANY
                                    : MRT_SWAP_KEEP;
  return 0;
}

mrt_status mrt_lua_swap_policy(void *user, const mrt_variable_info *v,
                               int *swap) {
  variable_question q = { v, swap };
  return protect(user, ask_variable, &q);
}
