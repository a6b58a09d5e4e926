/* emulate_dnn_run.cc -- what operations of the emulated cuDNN compute
 *
 * Plainly, in f32 or wider.  Of the engines that are ranked, all but the last
 * are ones that must not be used, and leave nothing but a spoiled workspace.
 *
 * SPDX-License-Identifier: MIT */
#include "emulate_dnn.h"

namespace dnn {

/* ---- forms --------------------------------------------------------------- */

#define OF(descriptor)  CUDNN_BACKEND_##descriptor##_DESCRIPTOR
#define CONV(way, name) CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_##name
#define SDPA(name)      CUDNN_ATTR_OPERATION_SDPA_FWD_##name
#define MASK(name)      CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_##name
#define ADD(name)       CUDNN_ATTR_OPERATION_POINTWISE_##name

/* The attributes of a convolution. */
struct form {
  int type, x, w, y, what;
};
static const form forms[] = {
  { OF(OPERATION_CONVOLUTION_FORWARD), CONV(FORWARD, X), CONV(FORWARD, W),
    CONV(FORWARD, Y), CONV(FORWARD, CONV_DESC) },
  { OF(OPERATION_CONVOLUTION_BACKWARD_DATA), CONV(BWD_DATA, DX),
    CONV(BWD_DATA, W), CONV(BWD_DATA, DY), CONV(BWD_DATA, CONV_DESC) },
  { OF(OPERATION_CONVOLUTION_BACKWARD_FILTER), CONV(BWD_FILTER, X),
    CONV(BWD_FILTER, DW), CONV(BWD_FILTER, DY), CONV(BWD_FILTER, CONV_DESC) },
};
static const int heads[] = { SDPA(QDESC), SDPA(KDESC), SDPA(VDESC), SDPA(ODESC),
                             SDPA(STATSDESC) };

static const form *form_of(const object &op) {
  for (const form &f : forms)
    if (f.type == op.type) return &f;
  return NULL;
}
static tensor operand(const object &op, int name) {
  return tensor_of(*op.to(name));
}

/* ---- checks -------------------------------------------------------------- */

static cudnnStatus_t want(bool good) {
  return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
}

static cudnnStatus_t check_tensor(const object &o) {
  tensor t = tensor_of(o);
  bool good = o.whole(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) %
                  (t.dtype == MRT_f32 ? 4 : 2) ==
              0;
  for (int i = 0; i < 4; i++) good = good && t.dims[i] > 0 && t.strides[i] > 0;
  return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static int64_t at(const object &conv, int name, int i) {
  return conv.list(name)[i];
}

static cudnnStatus_t check_convolution(const object &o, const form &f) {
  tensor x = operand(o, f.x), w = operand(o, f.w), y = operand(o, f.y);
  const object &c = *o.to(f.what);
  bool good = x.dims[0] == y.dims[0] && y.dims[1] == w.dims[0] &&
              x.dims[1] % w.dims[1] == 0 &&
              w.dims[0] % (x.dims[1] / w.dims[1]) == 0;
  for (int i = 0; i < 2; i++) {
    int64_t span =
        at(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, i) * (w.dims[2 + i] - 1) + 1;
    int64_t room = x.dims[2 + i] +
                   at(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i) +
                   at(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i) - span;
    good = good && room >= 0 &&
           y.dims[2 + i] ==
               room / at(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i) + 1;
  }
  return want(good);
}

static bool same(const tensor &a, const tensor &b) {
  return memcmp(a.dims, b.dims, sizeof a.dims) == 0;
}
static bool has_dims(const tensor &t, int64_t a, int64_t b, int64_t c,
                     int64_t d) {
  return t.dims[0] == a && t.dims[1] == b && t.dims[2] == c && t.dims[3] == d;
}

/* The mask that attention has: one operation from its input to its output. */
static bool is_mask_of(const object &o) {
  const object *graph = o.to(SDPA(SUBGRAPH));
  if (!graph) return true;
  auto &ops = graph->has.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects;
  const object &m = *ops[0];
  return ops.size() == 1 && m.type == OF(OPERATION_DIAGONAL_BAND_MASK) &&
         operand(m, MASK(XDESC)).id == o.whole(SDPA(SUBGRAPH_INPUT_UID), -1) &&
         operand(m, MASK(YDESC)).id == o.whole(SDPA(SUBGRAPH_OUTPUT_UID), -1);
}

static cudnnStatus_t check_attention(const object &o) {
  tensor t[5] = {};
  for (int i = 0; i < 5; i++) t[i] = operand(o, heads[i]);
  const int64_t *q = t[0].dims, *k = t[1].dims, *v = t[2].dims;
  bool good = k[0] == q[0] && v[0] == q[0] && k[3] == q[3] && v[2] == k[2] &&
              v[1] == k[1] && q[1] % k[1] == 0 &&
              has_dims(t[3], q[0], q[1], q[2], v[3]) &&
              has_dims(t[4], q[0], q[1], q[2], 1) && t[4].dtype == MRT_f32 &&
              is_mask_of(o);
  for (int i = 0; i < 4; i++) good = good && t[i].strides[3] == 1;
  return want(good);
}

/* What is not between operations is memory. */
static cudnnStatus_t check_pack(const object &o) {
  return want(o.has.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count ==
              o.has.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count);
}

static cudnnStatus_t check_mask(const object &o) {
  tensor x = operand(o, MASK(XDESC)), y = operand(o, MASK(YDESC));
  return want(same(x, y) && x.is_virtual && y.is_virtual &&
              operand(o, MASK(BDESC)).by_value &&
              o.whole(MASK(COMPARISON_MODE)) == CUDNN_POINTWISE_CMP_GE);
}

cudnnStatus_t check(const object &o) {
  if (const form *f = form_of(o)) return check_convolution(o, *f);
  if (o.type == OF(OPERATION_SDPA_FWD)) return check_attention(o);
  if (o.type == OF(TENSOR)) return check_tensor(o);
  if (o.type == OF(VARIANT_PACK)) return check_pack(o);
  if (o.type == OF(OPERATION_DIAGONAL_BAND_MASK)) return check_mask(o);
  if (o.type == OF(OPERATION_POINTWISE))
    return want(same(operand(o, ADD(XDESC)), operand(o, ADD(YDESC))));
  return CUDNN_STATUS_SUCCESS;
}

/* ---- engines ------------------------------------------------------------- */

enum engine { VARIES, ROUNDS, COMPILES, REFUSES, HUNGRY, GOOD };
enum { SPOILED = 1 << 12 };

static const std::vector<object_ref> &operations(const object &graph) {
  return graph.has.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects;
}

/* Of its first operand. */
static tensor first_of(const object &graph) {
  const object &op = *operations(graph)[0];
  const form *f = form_of(op);
  return operand(op, f ? f->x : SDPA(QDESC));
}

/* Attention only of 16 bits and up to 128 wide. */
std::vector<int> ranked(const object &graph, int mode) {
  tensor x = first_of(graph);
  bool attends = operations(graph)[0]->type == OF(OPERATION_SDPA_FWD);
  if (attends && (x.dtype == MRT_f32 || x.dims[3] > 128)) return {};
  if (mode == CUDNN_HEUR_MODE_FALLBACK) return { GOOD };
  if (attends) return { VARIES, ROUNDS, REFUSES, HUNGRY };
  return { VARIES, ROUNDS, COMPILES, REFUSES, HUNGRY };
}

std::vector<cudnnBackendNumericalNote_t> notes_of(int engine,
                                                  const object &graph) {
  if (engine == VARIES) return { CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC };
  if (engine == ROUNDS)
    return { CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
             CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS };
  if (first_of(graph).dtype == MRT_f32) return {};
  return { CUDNN_NUMERICAL_NOTE_TENSOR_CORE };
}
/* All of attention's are. */
bool is_compiled_here(int engine, const object &graph) {
  return engine == COMPILES ||
         operations(graph)[0]->type == OF(OPERATION_SDPA_FWD);
}
int64_t workspace_of(int engine) {
  return engine == HUNGRY ? INT64_C(1) << 40 : (int64_t)SPOILED;
}
bool can_plan(int engine) { return engine != REFUSES; }

/* ---- memory -------------------------------------------------------------- */

struct view : tensor {
  char *data;

  float get(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return mrt_get<float>(mrt_any<float>{ data, dtype }, place(a, b, c, d));
  }
  void put(int64_t a, int64_t b, int64_t c, int64_t d, float x) const {
    mrt_put(mrt_any<float>{ data, dtype }, place(a, b, c, d), x);
  }

private:
  int64_t place(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
};

/* Where tensors are while a graph is executed. */
struct memory {
  std::map<int64_t, char *> given;
  std::shared_ptr<std::map<int64_t, std::vector<float>>> between =
      std::make_shared<std::map<int64_t, std::vector<float>>>();

  view see(const object &op, int name) const {
    tensor t = operand(op, name);
    view v;
    (tensor &)v = t;
    if (t.is_virtual) {
      auto &own = (*between)[t.id];
      own.resize((size_t)(t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]));
      v.data = (char *)own.data();
    } else
      v.data = given.at(t.id);
    return v;
  }
};

/* ---- convolution --------------------------------------------------------- */

/* Call f(i) for every index of t. */
template <typename F> static void each(const tensor &t, F f) {
  int64_t i[4];
  for (i[0] = 0; i[0] < t.dims[0]; i[0]++)
    for (i[1] = 0; i[1] < t.dims[1]; i[1]++)
      for (i[2] = 0; i[2] < t.dims[2]; i[2]++)
        for (i[3] = 0; i[3] < t.dims[3]; i[3]++) f(i);
}

/* Every product x w belongs to one y: summed into the one that is made, which
 * one pass over the others' indices does for all three operations. */
static void convolve(const object &op, const form &f, const memory &m) {
  const object &c = *op.to(f.what);
  view x = m.see(op, f.x), w = m.see(op, f.w), y = m.see(op, f.y);
  const view &out = f.type == OF(OPERATION_CONVOLUTION_FORWARD)         ? y
                    : f.type == OF(OPERATION_CONVOLUTION_BACKWARD_DATA) ? x
                                                                        : w;
  auto of = [](const tensor &t, const int64_t *i) {
    return ((i[0] * t.dims[1] + i[1]) * t.dims[2] + i[2]) * t.dims[3] + i[3];
  };
  std::vector<double> sum(out.dims[0] * out.dims[1] * out.dims[2] *
                          out.dims[3]);
  int64_t per = w.dims[0] / (x.dims[1] / w.dims[1]);
  each(y, [&](const int64_t *i) {
    for (int64_t k = 0; k < w.dims[1]; k++)
      for (int64_t a = 0; a < w.dims[2]; a++)
        for (int64_t b = 0; b < w.dims[3]; b++) {
          int64_t in[] = { i[0], i[1] / per * w.dims[1] + k, 0, 0 };
          int64_t by[] = { i[1], k, a, b };
          bool inside = true;
          for (int d = 0; d < 2; d++) {
            in[2 + d] =
                i[2 + d] * at(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, d) +
                by[2 + d] * at(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, d) -
                at(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, d);
            inside = inside && in[2 + d] >= 0 && in[2 + d] < x.dims[2 + d];
          }
          if (!inside) continue;
          auto X = [&] { return (double)x.get(in[0], in[1], in[2], in[3]); };
          auto W = [&] { return (double)w.get(by[0], by[1], by[2], by[3]); };
          auto Y = [&] { return (double)y.get(i[0], i[1], i[2], i[3]); };
          if (&out == &y)
            sum[of(y, i)] += X() * W();
          else if (&out == &x)
            sum[of(x, in)] += Y() * W();
          else
            sum[of(w, by)] += X() * Y();
        }
  });
  each(out, [&](const int64_t *i) {
    out.put(i[0], i[1], i[2], i[3], (float)sum[of(out, i)]);
  });
}

static void add(const object &op, const memory &m) {
  view x = m.see(op, ADD(XDESC)), b = m.see(op, ADD(BDESC)),
       y = m.see(op, ADD(YDESC));
  auto in = [](int64_t i, int64_t n) { return n == 1 ? 0 : i; };
  each(y, [&](const int64_t *i) {
    y.put(i[0], i[1], i[2], i[3],
          x.get(i[0], i[1], i[2], i[3]) +
              b.get(in(i[0], b.dims[0]), in(i[1], b.dims[1]),
                    in(i[2], b.dims[2]), in(i[3], b.dims[3])));
  });
}

/* ---- attention ----------------------------------------------------------- */

struct attention {
  view t[5]; /* q, k, v, o, lse */
  double scale;
  bool causal;
  int64_t group;

  attention(const object &op, const memory &m)
      : scale(1), causal(op.to(SDPA(SUBGRAPH))) {
    for (int i = 0; i < 5; i++) t[i] = m.see(op, heads[i]);
    if (op.to(SDPA(SCALEDESC)))
      scale = *(const float *)m.given.at(operand(op, SDPA(SCALEDESC)).id);
    group = t[0].dims[1] / t[1].dims[1];
  }
  double score(const int64_t *i, int64_t s) const {
    double sum = 0;
    for (int64_t d = 0; d < t[0].dims[3]; d++)
      sum += (double)t[0].get(i[0], i[1], i[2], d) *
             (double)t[1].get(i[0], i[1] / group, s, d);
    return scale * sum;
  }
};

/* i: batch, head, query. */
static void attend(const attention &a, const int64_t *i) {
  int64_t S = a.t[1].dims[2];
  std::vector<double> w(a.causal ? std::min(S, i[2] + 1) : S);
  double top = -INFINITY, sum = 0;
  for (size_t s = 0; s < w.size(); s++) {
    w[s] = a.score(i, (int64_t)s);
    top = std::max(top, w[s]);
  }
  for (double &x : w) x = exp(x - top), sum += x;
  for (int64_t d = 0; d < a.t[3].dims[3]; d++) {
    double o = 0;
    for (size_t s = 0; s < w.size(); s++)
      o += w[s] / sum * a.t[2].get(i[0], i[1] / a.group, (int64_t)s, d);
    a.t[3].put(i[0], i[1], i[2], d, (float)o);
  }
  a.t[4].put(i[0], i[1], i[2], 0, (float)(top + log(sum)));
}

static void compute(const object &op, const memory &m) {
  if (const form *f = form_of(op)) {
    convolve(op, *f, m);
  } else if (op.type == OF(OPERATION_POINTWISE)) {
    add(op, m);
  } else {
    attention a(op, m);
    each(a.t[4], [&](const int64_t *i) { attend(a, i); });
  }
}

/* ---- execution ----------------------------------------------------------- */

/* MRT_EMULATE_CUDNN in the environment names a file that tells of each. */
static void tell(const object &op) {
  const char *path = getenv("MRT_EMULATE_CUDNN");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "%d\n", op.type);
  fclose(file);
}

/* Where the tensors that an operation, or its mask, refers to are.  Numbers on
 * the host are read at once. */
static cudnnStatus_t find(const object &op, memory *m,
                          std::map<int64_t, float> *numbers) {
  for (auto &attribute : op.has)
    for (auto &o : attribute.second.objects) {
      if (o->type == OF(OPERATIONGRAPH))
        for (auto &inner : operations(*o))
          if (cudnnStatus_t s = find(*inner, m, numbers)) return s;
      if (o->type != OF(TENSOR)) continue;
      tensor t = tensor_of(*o);
      if (t.is_virtual || numbers->count(t.id)) continue;
      if (!m->given.count(t.id)) return CUDNN_STATUS_BAD_PARAM;
      char *&at = m->given[t.id];
      int64_t align = o->whole(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
      if (t.by_value)
        (*numbers)[t.id] = *(const float *)at, at = (char *)&(*numbers)[t.id];
      else if ((intptr_t)at % align)
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t execute(const object &plan, const object &pack,
                      cudaStream_t stream) {
  const int64_t *ids = pack.list(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const int64_t *data = pack.list(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  int64_t n = pack.has.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count;
  char *workspace = (char *)pack.whole(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  auto numbers = std::make_shared<std::map<int64_t, float>>();
  object_ref graph = plan.graph;
  int engine = plan.engine;
  memory m;
  if (getenv("MRT_EMULATE_CUDNN_FAILS")) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!workspace) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  for (int64_t i = 0; i < n; i++) m.given[ids[i]] = (char *)data[i];
  for (auto &op : operations(*graph))
    if (cudnnStatus_t s = find(*op, &m, numbers.get())) return s;
  tell(*operations(*graph)[0]);
  mrt_emulate_work(stream, "cudnnBackendExecute", [=] {
    memset(workspace, 0xff, SPOILED);
    if (engine != GOOD || !numbers) return;
    for (auto &op : operations(*graph)) compute(*op, m);
  });
  return CUDNN_STATUS_SUCCESS;
}

} // namespace dnn
