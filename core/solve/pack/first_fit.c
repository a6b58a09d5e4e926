/* first_fit.c -- first fit, in any order, near-linear for short lifetimes
 *
 *   method  Each buffer goes into the lowest gap (or the tightest one) between
 *           the buffers already placed that live at the same time.  Those are
 *           kept in windows of time: a level has windows of width 2w that
 *           begin every w sections, so a buffer of length up to w lies wholly
 *           within one of them, and w grows by four from level to level.  A
 *           window lists what is placed in it by ascending offset; one walk
 *           along the list finds the gap, and drops the dead when births rise.
 *   cost    O(buffers met in the window) for one buffer; memory for n buffers
 *           O(n) a level, since the shortest w is the mean length
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/pack.h"

#include <string.h>

enum { ONE_WINDOW = 128, MAX_LEVELS = 16 };

typedef struct window {
  int *buffers; /* in ascending order of offset */
  int count;
} window;

typedef struct free_spot { /* what a walk reads of a placed buffer */
  int64_t offset, top;
  int first, last;
} free_spot;

typedef struct level {
  int width, windows;
  window *at;
} level;

typedef struct mrt_pack_fit {
  int levels;
  level level[MAX_LEVELS];
  free_spot *spots; /* of all buffers */
  bool
      by_birth; /* no buffer to come is born earlier: the dead may be dropped */
} fit;

/* The windows of a level that a buffer touches: [*from, *to]. */
static void touched(const level *l, const mrt_packed_buffer *i, int *from,
                    int *to) {
  *from = i->first / l->width - 1;
  if (*from < 0) *from = 0;
  *to = i->last / l->width;
  if (*to >= l->windows) *to = l->windows - 1;
}

static mrt_status level_new(mrt_packing *p, level *l, int width) {
  l->width = width;
  l->windows = width >= p->sections ? 1 : (p->sections - 1) / width + 1;
  l->at = MRT_NEW(p->arena, window, l->windows);
  if (!l->at) return MRT_ENOMEM;
  int from, to, sum = 0;
  for (int i = 0; i < p->n; i++) {
    touched(l, &p->buffers[i], &from, &to);
    for (int w = from; w <= to; w++) l->at[w].count++, sum++;
  }
  int *room = MRT_NEW(p->arena, int, sum);
  if (!room) return MRT_ENOMEM;
  for (int w = 0; w < l->windows; w++) {
    l->at[w].buffers = room;
    room += l->at[w].count;
  }
  return MRT_OK;
}

mrt_status mrt_pack_fit_new(mrt_packing *p) {
  fit *f = MRT_NEW(p->arena, fit, 1);
  if (!f) return MRT_ENOMEM;
  f->spots = MRT_NEW(p->arena, free_spot, p->n);
  if (!f->spots) return MRT_ENOMEM;
  int64_t lengths = 0;
  for (int i = 0; i < p->n; i++)
    lengths += p->buffers[i].last - p->buffers[i].first + 1;
  int64_t width = p->n > ONE_WINDOW ? lengths / p->n + 1 : p->sections;
  for (bool all = false; !all; width *= 4) {
    all = width >= p->sections || f->levels == MAX_LEVELS - 1;
    MRT_TRY(
        level_new(p, &f->level[f->levels++], all ? p->sections : (int)width));
  }
  p->fit = f;
  return MRT_OK;
}

/* The shortest list that has everything `i` can meet. */
static window *window_of(const fit *f, const mrt_packed_buffer *i) {
  int length = i->last - i->first + 1, k = 0;
  while (k < f->levels - 1 && f->level[k].width < length) k++;
  const level *l = &f->level[k];
  int w = l->windows == 1 ? 0 : i->first / l->width;
  return &l->at[w < l->windows ? w : l->windows - 1];
}

static int64_t find_gap(const mrt_packing *p, window *w,
                        const mrt_packed_buffer *buffer, mrt_pack_fit_rule rule,
                        int64_t *work) {
  int64_t at = 0, best = -1, best_gap = INT64_MAX;
  int k = 0, kept = 0;
  for (; k < w->count; k++) {
    const free_spot *q = &p->fit->spots[w->buffers[k]];
    if (q->last < buffer->first && p->fit->by_birth) continue;
    w->buffers[kept++] = w->buffers[k];
    if (q->first > buffer->last || q->last < buffer->first) continue;
    int64_t gap = q->offset - at;
    if (gap >= buffer->size && gap < best_gap) {
      best = at, best_gap = gap;
      if (rule == MRT_PACK_FIRST_FIT) break;
    }
    if (q->top > at) at = mrt_pack_align(buffer, q->top);
  }
  *work -= k + 1;
  if (k < w->count) k++; /* the one above the gap has been kept */
  if (kept < k)
    memmove(w->buffers + kept, w->buffers + k,
            (size_t)(w->count - k) * sizeof *w->buffers);
  w->count -= k - kept;
  return best >= 0 ? best : at;
}

static void insert(const free_spot *spots, window *w, int buffer) {
  int low = 0, high = w->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (spots[w->buffers[middle]].offset <= spots[buffer].offset)
      low = middle + 1;
    else
      high = middle;
  }
  memmove(w->buffers + low + 1, w->buffers + low,
          (size_t)(w->count - low) * sizeof *w->buffers);
  w->buffers[low] = buffer;
  w->count++;
}

static void place(mrt_packing *p, int buffer, int64_t *work) {
  const mrt_packed_buffer *i = &p->buffers[buffer];
  p->fit->spots[buffer] =
      (free_spot){ i->offset, i->offset + i->size, i->first, i->last };
  for (int k = 0; k < p->fit->levels; k++) {
    level *l = &p->fit->level[k];
    int from, to;
    touched(l, i, &from, &to);
    for (int w = from; w <= to; w++) {
      insert(p->fit->spots, &l->at[w], buffer);
      *work -= 8 + l->at[w].count / 32;
    }
  }
}

int64_t mrt_pack_fit_run(mrt_packing *p, const mrt_pack_order *order,
                         mrt_pack_fit_rule rule, int64_t limit, int64_t *work) {
  int64_t height = 0;
  bool rise = mrt_pack_by_start_rise(p, order, false);
  p->fit->by_birth = rise;
  if (rule == MRT_PACK_FIRST_FIT &&
      (rise || mrt_pack_by_start_rise(p, order, true)))
    return mrt_pack_by_start_run(p, order, limit);
  for (int k = 0; k < p->fit->levels; k++)
    for (int w = 0; w < p->fit->level[k].windows; w++)
      p->fit->level[k].at[w].count = 0;
  for (int k = 0; k < p->n; k++) {
    mrt_packed_buffer *buffer = &p->buffers[order[k].buffer];
    buffer->offset = find_gap(p, window_of(p->fit, buffer), buffer, rule, work);
    if (buffer->offset + buffer->size > height)
      height = buffer->offset + buffer->size;
    if (height >= limit || *work < 0) return INT64_MAX;
    place(p, order[k].buffer, work);
  }
  return height;
}
