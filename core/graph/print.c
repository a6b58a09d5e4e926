/* print.c -- a graph as text, one node a line
 *
 * SPDX-License-Identifier: MIT */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>

void mrt_string_add(mrt_string *s, const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (!s->failed && s->used + (size_t)n + 1 > s->room) {
    size_t room = s->room * 2 + (size_t)n + 256;
    char *grown = mrt_resize(s->allocator, s->text, s->room, room);
    if (grown)
      s->text = grown, s->room = room;
    else
      s->failed = true;
  }
  if (!s->failed)
    s->used +=
        (size_t)vsnprintf(s->text + s->used, s->room - s->used, fmt, again);
  va_end(again);
}

void mrt_string_free(mrt_string *s) {
  if (s->room) mrt_release(s->allocator, s->text, s->room);
  *s = (mrt_string){ .allocator = s->allocator };
}

static void print_value(const mrt_value *v, mrt_string *s) {
  static const char *const kinds[] = { "%", "input ", "variable ",
                                       "constant " };
  if (v->leaf == MRT_LEAF_INPUT)
    mrt_string_add(s, "input %d", v->index + 1);
  else if (v->name)
    mrt_string_add(s, "%s", v->name);
  else
    mrt_string_add(s, "%s%d", kinds[v->leaf], v->id);
}

void mrt_graph_print(const mrt_graph *g, mrt_string *s) {
  for (int i = 0; i < g->node_count; i++) {
    const mrt_node *n = g->nodes[i];
    for (int k = 0; k < n->nout; k++) {
      mrt_string_add(s, k ? ", " : "");
      print_value(n->out[k], s);
      mrt_string_add(s, " %s", mrt_show(&n->out[k]->type).s);
    }
    mrt_string_add(s, " = %s(", n->label);
    for (int k = 0; k < n->nin; k++) {
      mrt_string_add(s, k ? ", " : "");
      print_value(n->in[k], s);
    }
    mrt_string_add(s, ")   -- %s%s:%d\n", n->origin.backward ? "d " : "",
                   n->origin.file, n->origin.line);
  }
  for (int i = 0; i < g->output_count; i++) {
    mrt_string_add(s, "output %d = ", i + 1);
    print_value(g->outputs[i], s);
    mrt_string_add(s, "\n");
  }
}
