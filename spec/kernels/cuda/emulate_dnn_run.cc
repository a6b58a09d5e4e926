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
#define POINT(name)     CUDNN_ATTR_OPERATION_POINTWISE_##name
#define PRODUCT(name)   CUDNN_ATTR_OPERATION_MATMUL_##name
#define SUM(name)       CUDNN_ATTR_OPERATION_REDUCTION_##name
#define RESHAPE(name)   CUDNN_ATTR_OPERATION_RESHAPE_##name

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

/* Each dimension of `t` is that of `y`, or 1. */
static bool reaches(const tensor &t, const tensor &y) {
  bool good = true;
  for (int i = 0; i < 4; i++)
    good = good && (t.dims[i] == 1 || t.dims[i] == y.dims[i]);
  return good;
}
static bool is_of(const object &op, int name, int type) {
  return op.to(name)->whole(CUDNN_ATTR_TENSOR_DATA_TYPE) == type;
}
static int mode_of(const object &op) {
  return (int)op.to(POINT(PW_DESCRIPTOR))->whole(CUDNN_ATTR_POINTWISE_MODE);
}

static cudnnStatus_t check_pointwise(const object &o) {
  const object &how = *o.to(POINT(PW_DESCRIPTOR));
  int mode = mode_of(o);
  bool one = mode == CUDNN_POINTWISE_EXP || mode == CUDNN_POINTWISE_LOG ||
             mode == CUDNN_POINTWISE_GEN_INDEX;
  bool three = mode == CUDNN_POINTWISE_BINARY_SELECT;
  bool good = !o.to(POINT(BDESC)) == one && !o.to(POINT(TDESC)) == !three;
  for (int name : { POINT(XDESC), POINT(BDESC), POINT(TDESC) })
    if (o.to(name))
      good = good && reaches(operand(o, name), operand(o, POINT(YDESC)));
  if (mode == CUDNN_POINTWISE_GEN_INDEX)
    good = good && how.has.count(CUDNN_ATTR_POINTWISE_AXIS) &&
           is_of(o, POINT(YDESC), CUDNN_DATA_INT32);
  if (mode == CUDNN_POINTWISE_CMP_GE)
    good = good && is_of(o, POINT(YDESC), CUDNN_DATA_BOOLEAN);
  if (three) good = good && is_of(o, POINT(TDESC), CUDNN_DATA_BOOLEAN);
  return want(good);
}

/* One b for several heads of a. */
static cudnnStatus_t check_product(const object &o) {
  tensor a = operand(o, PRODUCT(ADESC)), b = operand(o, PRODUCT(BDESC)),
         c = operand(o, PRODUCT(CDESC));
  return want(a.dims[0] == c.dims[0] && b.dims[0] == c.dims[0] &&
              a.dims[1] == c.dims[1] && c.dims[1] % b.dims[1] == 0 &&
              a.dims[2] == c.dims[2] && a.dims[3] == b.dims[2] &&
              b.dims[3] == c.dims[3]);
}

static cudnnStatus_t check_sum(const object &o) {
  tensor x = operand(o, SUM(XDESC)), y = operand(o, SUM(YDESC));
  bool good = true;
  for (int i = 0; i < 4; i++) good = good && x.dims[i] % y.dims[i] == 0;
  return want(good);
}

static int64_t count_of(const tensor &t) {
  return t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3];
}

/* What is not between operations is memory. */
static cudnnStatus_t check_pack(const object &o) {
  return want(o.has.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count ==
              o.has.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count);
}

cudnnStatus_t check(const object &o) {
  if (const form *f = form_of(o)) return check_convolution(o, *f);
  if (o.type == OF(TENSOR)) return check_tensor(o);
  if (o.type == OF(VARIANT_PACK)) return check_pack(o);
  if (o.type == OF(OPERATION_POINTWISE)) return check_pointwise(o);
  if (o.type == OF(OPERATION_MATMUL)) return check_product(o);
  if (o.type == OF(OPERATION_REDUCTION)) return check_sum(o);
  if (o.type == OF(OPERATION_RESHAPE))
    return want(count_of(operand(o, RESHAPE(XDESC))) ==
                count_of(operand(o, RESHAPE(YDESC))));
  return CUDNN_STATUS_SUCCESS;
}

/* ---- engines ------------------------------------------------------------- */

enum engine { VARIES, ROUNDS, COMPILES, REFUSES, HUNGRY, GOOD };
enum { SPOILED = 1 << 12 };

static const std::vector<object_ref> &operations(const object &graph) {
  return graph.has.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects;
}

/* The products of a graph: two of attention, five of its gradient. */
static std::vector<object_ref> products(const object &graph) {
  std::vector<object_ref> found;
  for (auto &op : operations(graph))
    if (op->type == OF(OPERATION_MATMUL)) found.push_back(op);
  return found;
}

/* Of its first operand. */
static tensor first_of(const object &graph) {
  const object &op = *operations(graph)[0];
  const form *f = form_of(op);
  bool multiplies = op.type == OF(OPERATION_MATMUL);
  return operand(op, f ? f->x : multiplies ? PRODUCT(ADESC) : POINT(XDESC));
}

/* Attention only of 16 bits and up to 128 wide. */
std::vector<int> ranked(const object &graph, int mode) {
  tensor x = first_of(graph);
  size_t n = products(graph).size();
  if (n && n != 2 && n != 5) return {};
  if (n && (x.dtype == MRT_f32 || x.dims[3] > 128)) return {};
  if (mode == CUDNN_HEUR_MODE_FALLBACK) return { GOOD };
  if (n) return { VARIES, ROUNDS, REFUSES, HUNGRY };
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
  return engine == COMPILES || !products(graph).empty();
}
/* That of attention's gradient stores that of the scores. */
int64_t workspace_of(int engine, const object &graph) {
  if (engine == HUNGRY) return INT64_C(1) << 40;
  auto p = products(graph);
  if (p.size() < 5) return SPOILED;
  tensor scores = operand(*p[0], PRODUCT(CDESC));
  auto up = [](int64_t n) { return (n + 127) / 128 * 128; };
  return SPOILED + scores.dims[0] * scores.dims[1] * up(scores.dims[2]) *
                       up(scores.dims[3]) * 2;
}
bool can_plan(int engine) { return engine != REFUSES; }

/* ---- memory -------------------------------------------------------------- */

struct view : tensor {
  char *data;

  float get(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return in(place(a, b, c, d));
  }
  void put(int64_t a, int64_t b, int64_t c, int64_t d, float x) const {
    mrt_put(mrt_any<float>{ data, dtype }, place(a, b, c, d), x);
  }

  float in(int64_t place) const {
    return mrt_get<float>(mrt_any<float>{ data, dtype }, place);
  }
  /* Where it is 1 wide, for all. */
  float spread(const int64_t *i) const {
    auto at = [&](int d) { return dims[d] == 1 ? 0 : i[d]; };
    return get(at(0), at(1), at(2), at(3));
  }
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
      int64_t n =
          v.place(t.dims[0] - 1, t.dims[1] - 1, t.dims[2] - 1, t.dims[3] - 1);
      own.resize((size_t)n + 1, NAN); /* until it is written */
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

/* ---- pointwise, sums, products ------------------------------------------- */

static float point(int mode, float x, float b, float t) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_EXP:
    return expf(x);
  case CUDNN_POINTWISE_LOG:
    return logf(x);
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return t != 0 ? x : b;
  }
  return NAN;
}

static void point(const object &op, const memory &m) {
  const object &how = *op.to(POINT(PW_DESCRIPTOR));
  int mode = mode_of(op), axis = (int)how.whole(CUDNN_ATTR_POINTWISE_AXIS);
  auto see = [&](int name) { return op.to(name) ? m.see(op, name) : view(); };
  view x = see(POINT(XDESC)), b = see(POINT(BDESC)), t = see(POINT(TDESC)),
       y = see(POINT(YDESC));
  each(y, [&](const int64_t *i) {
    auto of = [&](const view &v) { return v.data ? v.spread(i) : 0; };
    float value = mode == CUDNN_POINTWISE_GEN_INDEX
                      ? (float)i[axis]
                      : point(mode, of(x), of(b), of(t));
    y.put(i[0], i[1], i[2], i[3], value);
  });
}

/* Numbers that lie together in x become one of y. */
static void sum(const object &op, const memory &m) {
  view x = m.see(op, SUM(XDESC)), y = m.see(op, SUM(YDESC));
  bool largest = op.to(SUM(DESC))->whole(CUDNN_ATTR_REDUCTION_OPERATOR) ==
                 CUDNN_REDUCE_TENSOR_MAX;
  each(y, [&](const int64_t *i) {
    double all = largest ? -INFINITY : 0;
    tensor part = x;
    for (int d = 0; d < 4; d++) part.dims[d] = x.dims[d] / y.dims[d];
    each(part, [&](const int64_t *j) {
      int64_t at[4];
      for (int d = 0; d < 4; d++) at[d] = i[d] * part.dims[d] + j[d];
      double one = x.get(at[0], at[1], at[2], at[3]);
      all = largest ? std::max(all, one) : all + one;
    });
    y.put(i[0], i[1], i[2], i[3], (float)all);
  });
}

static void multiply(const object &op, const memory &m) {
  view a = m.see(op, PRODUCT(ADESC)), b = m.see(op, PRODUCT(BDESC)),
       c = m.see(op, PRODUCT(CDESC));
  int64_t group = c.dims[1] / b.dims[1];
  each(c, [&](const int64_t *i) {
    double all = 0;
    for (int64_t k = 0; k < a.dims[3]; k++)
      all += (double)a.get(i[0], i[1], i[2], k) *
             (double)b.get(i[0], i[1] / group, k, i[3]);
    c.put(i[0], i[1], i[2], i[3], (float)all);
  });
}

/* What is in memory stays where it is. */
static void reshape(const object &op, const memory &m) {
  view x = m.see(op, RESHAPE(XDESC)), y = m.see(op, RESHAPE(YDESC));
  each(y, [&](const int64_t *i) {
    float value = x.in(y.place(i[0], i[1], i[2], i[3]));
    y.put(i[0], i[1], i[2], i[3], value);
  });
}

static void compute(const object &op, const memory &m) {
  if (const form *f = form_of(op))
    convolve(op, *f, m);
  else if (op.type == OF(OPERATION_POINTWISE))
    point(op, m);
  else if (op.type == OF(OPERATION_REDUCTION))
    sum(op, m);
  else if (op.type == OF(OPERATION_MATMUL))
    multiply(op, m);
  else
    reshape(op, m);
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

/* Where the tensors that an operation refers to are.  Numbers on
 * the host are read at once. */
static cudnnStatus_t find(const object &op, memory *m,
                          std::map<int64_t, float> *numbers) {
  for (auto &attribute : op.has)
    for (auto &o : attribute.second.objects) {
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
  int64_t bytes = workspace_of(engine, *graph);
  memory m;
  if (getenv("MRT_EMULATE_CUDNN_FAILS")) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!workspace) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  for (int64_t i = 0; i < n; i++) m.given[ids[i]] = (char *)data[i];
  for (auto &op : operations(*graph))
    if (cudnnStatus_t s = find(*op, &m, numbers.get())) return s;
  tell(*operations(*graph)[0]);
  mrt_emulate_work(stream, "cudnnBackendExecute", [=] {
    memset(workspace, 0xff, SPOILED);
    memset(workspace + bytes - SPOILED, 0xff, SPOILED);
    if (engine != GOOD || !numbers) return;
    for (auto &op : operations(*graph)) compute(*op, m);
  });
  return CUDNN_STATUS_SUCCESS;
}

} // namespace dnn
