/* fused.c -- running a chain of pointwise operators block by block
 *
 * Every register has a place for the length of a block: contiguous inputs and
 * outputs in memory, all else in slots of a small room on the stack, which stay
 * in the first-level cache.  Slots are given out by a linear scan over the
 * program and taken back after a value's last reader.
 *
 * An output may have the storage of an input (the same elements at the same
 * places).  It is then written only after that input has been read: into a slot
 * first, where an instruction still to come reads the input.
 *
 * An input that repeats (a bias along rows, a scalar) has a period; blocks are
 * cut to a multiple of it where it is short, and one gathering serves all.
 *
 * SPDX-License-Identifier: MIT */
#include "fused.h"

enum {
  ROOM = 28 << 10, /* bytes; most of a first-level cache */
  LONG = 4096,     /* elements of a block; without slots there is no reuse */
  SHORT = 512      /* with them: 14 slots of f32 */
};

extern const mrt_kernel *const MRT_CPU(table)[];

/* ---- before the first block ---------------------------------------------- */

/* Filled where it stays, and no further than it is read: small operators take
 * less time than to clear a walk. */
static void find_path(const mrt_operand *x, walk *w) {
  w->rank = x->type.rank;
  for (int i = 0; i < w->rank; i++) {
    w->dims[i] = x->type.dims[i];
    for (int k = 0; k < WALK_OPERANDS; k++) w->step[k][i] = x->strides[i];
  }
  walk_join(w);
}

/* As a path would say, in less time than it takes to write one down. */
static bool is_contiguous(const mrt_operand *x) {
  int64_t next = 1;
  for (int i = x->type.rank - 1; i >= 0; i--) {
    int64_t n = x->type.dims[i];
    if (n != 1 && x->strides[i] != next) return false;
    next *= n;
  }
  return true;
}

static void place_inputs(fused_program *p) {
  for (int i = 0; i < p->call->nin; i++) {
    const mrt_operand *x = &p->call->in[i];
    fused_place *at = &p->at[i];
    at->size = mrt_size(x);
    at->memory = is_contiguous(x) ? x->data : NULL;
    if (at->memory) continue;
    walk *w = &p->path[i];
    find_path(x, w);
    at->slot = p->slots++;
    p->period[i] = w->step[0][0] ? w->count : w->count / w->dims[0];
  }
}

/* Whether an instruction after `writer` reads what `out` would overwrite. */
static bool read_later(const fused_program *p, const mrt_operand *out,
                       int writer) {
  for (int i = 0; i < p->call->nin; i++)
    if (p->call->in[i].data == out->data && p->last[i] > writer) return true;
  return false;
}

static void place_results(fused_program *p) {
  const mrt_fused_options *o = p->options;
  int free_after[MRT_FUSED_REGISTERS], given = p->slots;
  for (int k = 0; k < o->code_count; k++) {
    const mrt_fused_code *code = &o->code[k];
    fused_place *at = &p->at[code->out];
    int last = p->last[code->out];
    at->memory = NULL;
    at->size = mrt_dtypes[code->out_dtype].bytes;
    if (p->results == 0 && code->out == o->out_register[0]) continue;
    for (int i = 0; i < p->results; i++) {
      if (o->out_register[i] != code->out) continue;
      last = o->code_count;
      if (!read_later(p, &p->call->out[i], k))
        at->memory = p->call->out[i].data;
    }
    if (at->memory) continue;
    int s = given;
    while (s < p->slots && free_after[s] >= k) s++;
    if (s == p->slots) p->slots++;
    at->slot = s;
    free_after[s] = last > k ? last : k;
  }
}

static void choose_block(fused_program *p) {
  size_t size = 1;
  for (int r = 0; r < p->options->registers; r++)
    if (!p->at[r].memory && p->at[r].size > size) size = p->at[r].size;
  int64_t most = LONG, repeat = 1;
  if (p->slots) {
    most = (int64_t)(ROOM / ((size_t)p->slots * size)) / 64 * 64;
    most = most < SHORT ? most : SHORT;
  }
  for (int i = 0; i < p->call->nin; i++)
    if (!p->at[i].memory && p->period[i] <= most && p->period[i] > repeat)
      repeat = p->period[i];
  p->block = most - most % repeat;
  p->slot_bytes = ((size_t)p->block * size + 63) / 64 * 64;
}

void MRT_CPU(fused_prepare)(fused_program *p, const mrt_call *c,
                            const mrt_fused_options *o, int results) {
  p->call = c, p->options = o, p->results = results, p->slots = 0;
  p->count = mrt_type_count(&o->out_types[0]);
  if (p->count == 0) return; /* nothing is ever filled */
  for (int r = 0; r < o->registers; r++) p->last[r] = -1;
  for (int k = 0; k < o->code_count; k++)
    for (int i = 0; i < o->code[k].nin; i++) p->last[o->code[k].in[i]] = k;
  place_inputs(p);
  place_results(p);
  choose_block(p);
}

/* ---- a block ------------------------------------------------------------- */

#define TAKE(T)                                                                \
  do {                                                                         \
    const T *x = (const T *)from;                                              \
    T *y = (T *)to;                                                            \
    if (step == 0)                                                             \
      for (int64_t i = 0; i < n; i++) y[i] = x[0];                             \
    else                                                                       \
      for (int64_t i = 0; i < n; i++) y[i] = x[i * step];                      \
  } while (0)

static void take(const char *from, int64_t step, char *to, int64_t n,
                 size_t size) {
  if (step == 1)
    memcpy(to, from, (size_t)n * size);
  else if (size == 4)
    TAKE(unit4);
  else if (size == 8)
    TAKE(unit8);
  else if (size == 2)
    TAKE(unit2);
  else
    TAKE(unit1);
}

/* Elements [first, first + n) of input i into its slot. */
static void gather(const fused_program *p, int i, int64_t first, int64_t n,
                   char *to) {
  walk w = p->path[i];
  size_t size = p->at[i].size;
  const char *data = p->call->in[i].data;
  walk_seek(&w, first);
  for (int64_t run; n > 0; n -= run, walk_next(&w)) {
    run = walk_row(&w, n);
    take(data + w.place[0] * (int64_t)size, w.step[0][w.rank - 1], to, run,
         size);
    to += run * (int64_t)size;
  }
}

static bool repeats(const fused_program *p, int input) {
  return p->block % p->period[input] == 0;
}

static void compute(const fused_program *p, char *const *reg, int64_t first,
                    int64_t n) {
  const mrt_fused_options *o = p->options;
  for (int k = 0; k < o->code_count; k++) {
    const mrt_fused_code *code = &o->code[k];
    mrt_block b = { .n = n,
                    .out = reg[code->out],
                    .in_dtype = code->in_dtype,
                    .out_dtype = code->out_dtype,
                    .options = code->options,
                    .first = first,
                    .run = p->call->run };
    for (int i = 0; i < code->nin; i++) b.in[i] = reg[code->in[i]];
    MRT_CPU(table)[code->op]->block(&b);
  }
}

static void run_block(const fused_program *p, char **reg, int64_t first,
                      int64_t n) {
  const mrt_fused_options *o = p->options;
  for (int r = 0; r < o->registers; r++)
    if (p->at[r].memory)
      reg[r] = p->at[r].memory + first * (int64_t)p->at[r].size;
  for (int i = 0; i < p->call->nin; i++)
    if (!p->at[i].memory && !repeats(p, i)) gather(p, i, first, n, reg[i]);
  compute(p, reg, first, n);
  for (int i = 0; i < p->results; i++) {
    int r = o->out_register[i];
    size_t size = p->at[r].size;
    char *to = (char *)p->call->out[i].data + first * (int64_t)size;
    if (reg[r] != to) memcpy(to, reg[r], (size_t)n * size);
  }
}

double MRT_CPU(fused_ns)(const fused_program *p) {
  return 0.3 * (double)p->options->code_count;
}

void MRT_CPU(fused_fill)(const fused_program *p, int64_t first, int64_t n,
                         void *to) {
  _Alignas(64) char room[ROOM];
  char *reg[MRT_FUSED_REGISTERS] = { NULL }, *y = to;
  int out = p->options->out_register[0];
  for (int r = 0; r < p->options->registers; r++)
    if (!p->at[r].memory) reg[r] = room + (size_t)p->at[r].slot * p->slot_bytes;
  for (int64_t m; n > 0; n -= m, first += m) {
    m = n < p->block ? n : p->block;
    for (int i = 0; i < p->call->nin; i++)
      if (p->at[i].memory)
        reg[i] = p->at[i].memory + first * (int64_t)p->at[i].size;
      else
        gather(p, i, first, m, reg[i]);
    reg[out] = y;
    compute(p, reg, first, m);
    y += m * (int64_t)p->at[out].size;
  }
}

static void run_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const fused_program *p = shared;
  _Alignas(64) char room[ROOM];
  char *reg[MRT_FUSED_REGISTERS] = { NULL };
  int64_t block = p->block, from, to;
  mrt_share((p->count + block - 1) / block, part, parts, &from, &to);
  if (from == to) return;
  for (int r = 0; r < p->options->registers; r++)
    if (!p->at[r].memory) reg[r] = room + (size_t)p->at[r].slot * p->slot_bytes;
  for (int i = 0; i < p->call->nin; i++)
    if (!p->at[i].memory && repeats(p, i))
      gather(p, i, 0, block < p->count ? block : p->count, reg[i]);
  for (; from < to; from++) {
    int64_t first = from * block, rest = p->count - first;
    run_block(p, reg, first, rest < block ? rest : block);
  }
}

static void fused(const mrt_call *c) {
  fused_program p;
  if (mrt_type_count(&c->out[0].type) == 0) return;
  MRT_CPU(fused_prepare)(&p, c, c->options, c->nout);
  double ns = (double)p.count * MRT_CPU(fused_ns)(&p);
  mrt_parallel(c, mrt_team(c, ns), run_part, &p);
}
MRT_KERNEL(fused, .run = fused);
