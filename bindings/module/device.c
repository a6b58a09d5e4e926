/* device.c -- what plans are made for, and how long their nodes take
 *
 * A device is a table with the fields of mrt_device_profile: `matrix` by dtype,
 * `rate` and `edge`, a list of three, by kind of work.  lua/mrt/device checks
 * what users write; here a field that is missing stays what it is.
 *
 * SPDX-License-Identifier: MIT */
#include "binding.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct field {
  const char *name;
  size_t offset;
  bool bytes; /* size_t, or else double */
} field;

#define NUMBER(name)                                                           \
  { #name, offsetof(mrt_device_profile, name), false }
#define BYTES(name)                                                            \
  { #name, offsetof(mrt_device_profile, name), true }

static const field fields[] = {
  BYTES(align),          BYTES(capacity),   BYTES(overhead),
  NUMBER(launch),        NUMBER(call),      NUMBER(serial),
  NUMBER(cache),         NUMBER(bandwidth), NUMBER(cache_bandwidth),
  NUMBER(swap_capacity), NUMBER(swap_read), NUMBER(swap_write),
  NUMBER(swap_latency),  NUMBER(winograd),  NUMBER(spend),
};
enum { FIELDS = sizeof fields / sizeof *fields };

static const struct {
  const char *name;
  size_t offset;
} link_fields[] = {
  { "ranks", offsetof(mrt_link, ranks) },
  { "bandwidth", offsetof(mrt_link, bandwidth) },
  { "latency", offsetof(mrt_link, latency) },
  { "ramp", offsetof(mrt_link, ramp) },
};
enum { LINK_FIELDS = sizeof link_fields / sizeof *link_fields };

static const field tier_fields[] = {
  { "capacity", offsetof(mrt_tier_profile, capacity), false },
  { "read", offsetof(mrt_tier_profile, read), false },
  { "write", offsetof(mrt_tier_profile, write), false },
  { "latency", offsetof(mrt_tier_profile, latency), false },
};
enum { TIER_FIELDS = sizeof tier_fields / sizeof *tier_fields };

static double *link_figure(mrt_link *l, int field) {
  return (double *)((char *)l + link_fields[field].offset);
}

static const char *dtype_name(int i) { return mrt_dtype_name((mrt_dtype)i); }

static void push_list(lua_State *L, const char *key, const double *at, int n,
                      const char *(*name)(int)) {
  lua_createtable(L, 0, n);
  for (int i = 0; i < n; i++) {
    lua_pushnumber(L, at[i]);
    if (name)
      lua_setfield(L, -2, name(i));
    else
      lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, key);
}

static void push_text(lua_State *L, const char *key, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

static void push_tiers(lua_State *L, const mrt_device_profile *d) {
  push_text(L, "swap_name", d->swap_name);
  push_text(L, "swap_folder", d->swap_folder);
  lua_createtable(L, d->slower_count, 0);
  for (int i = 0; i < d->slower_count; i++) {
    const mrt_tier_profile *t = &d->slower[i];
    lua_createtable(L, 0, TIER_FIELDS + 2);
    push_text(L, "name", t->name);
    push_text(L, "folder", t->folder);
    for (int k = 0; k < TIER_FIELDS; k++) {
      lua_pushnumber(
          L, *(const double *)((const char *)t + tier_fields[k].offset));
      lua_setfield(L, -2, tier_fields[k].name);
    }
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "slower");
}

void mrt_lua_push_device(lua_State *L, const mrt_device_profile *d) {
  lua_createtable(L, 0, FIELDS + 8);
  lua_pushstring(L, d->name);
  lua_setfield(L, -2, "name");
  lua_pushinteger(L, d->threads);
  lua_setfield(L, -2, "threads");
  lua_pushboolean(L, d->epilogues);
  lua_setfield(L, -2, "epilogues");
  lua_pushboolean(L, d->records);
  lua_setfield(L, -2, "records");
  lua_pushboolean(L, d->swap_known);
  lua_setfield(L, -2, "swap_known");
  for (int i = 0; i < FIELDS; i++) {
    const char *at = (const char *)d + fields[i].offset;
    if (fields[i].bytes)
      lua_pushinteger(L, (lua_Integer) * (const size_t *)at);
    else
      lua_pushnumber(L, *(const double *)at);
    lua_setfield(L, -2, fields[i].name);
  }
  push_list(L, "matrix", d->matrix, MRT_DTYPE_COUNT, dtype_name);
  push_list(L, "rate", d->rate, MRT_COST_COUNT, mrt_cost_name);
  lua_createtable(L, 0, MRT_COST_COUNT);
  for (int i = 0; i < MRT_COST_COUNT; i++)
    push_list(L, mrt_cost_name(i), d->edge[i], 3, NULL);
  lua_setfield(L, -2, "edge");
  lua_createtable(L, d->link_count, 0);
  for (int i = 0; i < d->link_count; i++) {
    lua_createtable(L, 0, LINK_FIELDS);
    for (int k = 0; k < LINK_FIELDS; k++) {
      lua_pushnumber(L, *link_figure((mrt_link *)&d->links[i], k));
      lua_setfield(L, -2, link_fields[k].name);
    }
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "links");
  push_tiers(L, d);
}

/* device(): the one that plans are made for. */
static int get_device(lua_State *L) {
  mrt_lua_push_device(L, mrt_context_get_device(mrt_binding_get(L)->ctx));
  return 1;
}

/* The number in field `key`, or at index `i`, of the table on top. */
static void read_number(lua_State *L, const char *key, int i, double *to) {
  if (key)
    lua_getfield(L, -1, key);
  else
    lua_rawgeti(L, -1, i + 1);
  if (lua_type(L, -1) == LUA_TNUMBER) *to = lua_tonumber(L, -1);
  lua_pop(L, 1);
}

static void read_list(lua_State *L, const char *key, double *at, int n,
                      const char *(*name)(int)) {
  if (lua_getfield(L, -1, key) == LUA_TTABLE)
    for (int i = 0; i < n; i++)
      read_number(L, name ? name(i) : NULL, i, &at[i]);
  lua_pop(L, 1);
}

static size_t to_bytes(double x) {
  return x >= 0 && x < 0x1p62 ? (size_t)x : SIZE_MAX;
}

/* What joins ranks, of the table on top; without the field none does. */
static void read_links(lua_State *L, mrt_device_profile *d) {
  d->link_count = 0;
  if (lua_getfield(L, -1, "links") == LUA_TTABLE) {
    for (int i = 0; i < MRT_LINKS; i++) {
      bool there = lua_rawgeti(L, -1, i + 1) == LUA_TTABLE;
      d->links[i] = (mrt_link){ 0 };
      for (int k = 0; there && k < LINK_FIELDS; k++)
        read_number(L, link_fields[k].name, 0, link_figure(&d->links[i], k));
      if (there) d->link_count = i + 1;
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

/* The text in field `key` of the table on top, cut off where there is no room. */
static void read_text(lua_State *L, const char *key, char *to, size_t room) {
  lua_getfield(L, -1, key);
  if (lua_type(L, -1) == LUA_TSTRING)
    snprintf(to, room, "%s", lua_tostring(L, -1));
  lua_pop(L, 1);
}

/* The swap tiers behind the first, of the table on top. */
static void read_tiers(lua_State *L, mrt_device_profile *d) {
  *d->swap_name = *d->swap_folder = '\0', d->slower_count = 0;
  read_text(L, "swap_name", d->swap_name, sizeof d->swap_name);
  read_text(L, "swap_folder", d->swap_folder, sizeof d->swap_folder);
  if (lua_getfield(L, -1, "slower") == LUA_TTABLE) {
    for (int i = 0; i < MRT_SWAP_TIERS - 1; i++) {
      mrt_tier_profile *t = &d->slower[i];
      *t = (mrt_tier_profile){ 0 };
      if (lua_rawgeti(L, -1, i + 1) == LUA_TTABLE) {
        d->slower_count = i + 1;
        read_text(L, "name", t->name, sizeof t->name);
        read_text(L, "folder", t->folder, sizeof t->folder);
        for (int k = 0; k < TIER_FIELDS; k++)
          read_number(L, tier_fields[k].name, 0,
                      (double *)((char *)t + tier_fields[k].offset));
      }
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

/* set_device(table?): without one, this device as declared. */
static int set_device(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  if (lua_isnoneornil(L, 1)) {
    MRT_CHECK(L, m, "device", mrt_context_set_device(m->ctx, NULL));
    return 0;
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mrt_device_profile d = *mrt_context_get_device(m->ctx);
  for (int i = 0; i < FIELDS; i++) {
    char *at = (char *)&d + fields[i].offset;
    double value = fields[i].bytes ? (double)*(size_t *)at : *(double *)at;
    read_number(L, fields[i].name, 0, &value);
    if (fields[i].bytes)
      *(size_t *)at = to_bytes(value);
    else
      *(double *)at = value;
  }
  double threads = d.threads;
  read_number(L, "threads", 0, &threads);
  d.threads = threads >= 0 && threads < 1e6 ? (int)threads : 0;
  if (lua_getfield(L, -1, "epilogues") == LUA_TBOOLEAN)
    d.epilogues = lua_toboolean(L, -1);
  lua_pop(L, 1);
  if (lua_getfield(L, -1, "records") == LUA_TBOOLEAN)
    d.records = lua_toboolean(L, -1);
  lua_pop(L, 1);
  if (lua_getfield(L, -1, "swap_known") == LUA_TBOOLEAN)
    d.swap_known = lua_toboolean(L, -1);
  lua_pop(L, 1);
  read_list(L, "matrix", d.matrix, MRT_DTYPE_COUNT, dtype_name);
  read_list(L, "rate", d.rate, MRT_COST_COUNT, mrt_cost_name);
  if (lua_getfield(L, -1, "edge") == LUA_TTABLE)
    for (int i = 0; i < MRT_COST_COUNT; i++)
      read_list(L, mrt_cost_name(i), d.edge[i], 3, NULL);
  lua_pop(L, 1);
  read_links(L, &d);
  read_tiers(L, &d);
  lua_getfield(L, 1, "name");
  if (lua_tostring(L, -1))
    snprintf(d.name, sizeof d.name, "%s", lua_tostring(L, -1));
  lua_pop(L, 1);
  MRT_CHECK(L, m, "device", mrt_context_set_device(m->ctx, &d));
  return 0;
}

/* available(bytes?): what this process can still get, 0 where that is not
 * known; a number instead of asking, false: as much as it likes, true: ask. */
static int available(lua_State *L) {
  mrt_binding *m = mrt_binding_get(L);
  if (lua_isboolean(L, 1))
    mrt_context_set_available(m->ctx, lua_toboolean(L, 1) ? 0 : SIZE_MAX);
  else if (!lua_isnoneornil(L, 1)) {
    lua_Integer bytes = luaL_checkinteger(L, 1);
    luaL_argcheck(L, bytes > 0, 1, "not a number of bytes");
    mrt_context_set_available(m->ctx, (size_t)bytes);
  }
  size_t bytes = mrt_context_available(m->ctx);
  lua_pushinteger(L, bytes > INT64_MAX ? INT64_MAX : (lua_Integer)bytes);
  return 1;
}

/* kinds(): names of devices whose libraries lie beside this one. */
static int kinds(lua_State *L) {
  char name[64];
  lua_newtable(L);
  for (int i = 0; mrt_device_kind(i, name, sizeof name); i++) {
    lua_pushstring(L, name);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* overhead(): bytes of the device that no tensor has. */
static int overhead(lua_State *L) {
  lua_pushinteger(L,
                  (lua_Integer)mrt_context_overhead(mrt_binding_get(L)->ctx));
  return 1;
}

void mrt_lua_device_open(lua_State *L, mrt_binding *m) {
  static const luaL_Reg functions[] = {
    { "device", get_device },   { "set_device", set_device },
    { "available", available }, { "overhead", overhead },
    { "device_kinds", kinds },  { NULL, NULL },
  };
  mrt_lua_register(L, m, functions);
}
