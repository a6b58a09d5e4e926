/* graph.c -- a shape as a graph of cuDNN's descriptors, and its engine
 *
 * Of the engines that the library ranks, the first is taken that is as exact
 * as kernels of ours, gives the same bits each time, and needs a moderate
 * workspace.  All intermediate numbers are f32.
 *
 * A causal mask is a graph of its own within attention's: it turns scores into
 * scores.
 *
 * SPDX-License-Identifier: MIT */
#ifdef MRT_CUDNN_LIBRARY
#include "dnn/graph.h"

enum {
  RANKED = 16,            /* engines that are looked at, each way */
  NOTES = 32,             /* on an engine */
  MOST = 256 << 20,       /* bytes of workspace */
  ATTENTION_SINCE = 92100 /* masks as graphs */
};

typedef cudnnBackendDescriptor_t descriptor;

/* While a graph is made; the first failure is kept, and nothing done after. */
typedef struct making {
  const mrt_dnn_library *lib;
  mrt_dnn *p;
  cudnnStatus_t status;
} making;

/* ---- descriptors --------------------------------------------------------- */

static descriptor make(making *m, cudnnBackendDescriptorType_t type) {
  descriptor d = NULL;
  if (!m->status && m->p->count == MRT_DNN_MADE)
    m->status = CUDNN_STATUS_NOT_SUPPORTED;
  if (!m->status) m->status = m->lib->make(type, &d);
  if (!m->status) m->p->made[m->p->count++] = d;
  return m->status ? NULL : d;
}

static void set(making *m, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count,
                const void *value) {
  if (!m->status) m->status = m->lib->set(d, name, type, count, value);
}
static void set_int(making *m, descriptor d, cudnnBackendAttributeName_t name,
                    int64_t value) {
  set(m, d, name, CUDNN_TYPE_INT64, 1, &value);
}
static void set_float(making *m, descriptor d, cudnnBackendAttributeName_t name,
                      float value) {
  set(m, d, name, CUDNN_TYPE_FLOAT, 1, &value);
}
static void set_type(making *m, descriptor d, cudnnBackendAttributeName_t name,
                     cudnnDataType_t value) {
  set(m, d, name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
static void refer(making *m, descriptor d, cudnnBackendAttributeName_t name,
                  descriptor to) {
  set(m, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}
static descriptor finish(making *m, descriptor d) {
  if (!m->status) m->status = m->lib->finalize(d);
  return d;
}

/* ---- tensors ------------------------------------------------------------- */

/* Where its numbers are: `virtual` ones nowhere, `by_value` on the host. */
static descriptor tensor(making *m, int64_t id, cudnnDataType_t type,
                         const int64_t *dims, const int64_t *strides,
                         bool is_virtual, bool by_value) {
  descriptor d = make(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set_int(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  set_type(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  set_int(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, MRT_DNN_ALIGN);
  set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
  set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
  if (is_virtual)
    set(m, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  if (by_value)
    set(m, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  return finish(m, d);
}

static cudnnDataType_t type_of(int64_t dtype) {
  return dtype == MRT_f16    ? CUDNN_DATA_HALF
         : dtype == MRT_bf16 ? CUDNN_DATA_BFLOAT16
                             : CUDNN_DATA_FLOAT;
}
static descriptor operand(making *m, int i) {
  const mrt_dnn_tensor *t = &m->p->shape.of[i];
  return tensor(m, i + 1, type_of(t->dtype), t->dims, t->strides, false, false);
}
static descriptor between(making *m, int i, const mrt_dnn_tensor *like) {
  return tensor(m, MRT_DNN_IDS + i, CUDNN_DATA_FLOAT, like->dims, like->strides,
                true, false);
}

/* ---- convolution --------------------------------------------------------- */

/* The names of its attributes, operands in the order of dnn.h. */
typedef struct form {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t operand[3], what, alpha, beta;
} form;

#define CONVOLUTION(type, way, a, b, c)                                        \
  {                                                                            \
    CUDNN_BACKEND_OPERATION_CONVOLUTION_##type##_DESCRIPTOR,                   \
        { CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_##a,                        \
          CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_##b,                        \
          CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_##c },                      \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_CONV_DESC,                    \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_ALPHA,                        \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_BETA                          \
  }
static const form convolutions[] = {
  [MRT_DNN_CONV] = CONVOLUTION(FORWARD, FORWARD, X, W, Y),
  [MRT_DNN_CONV_DX] = CONVOLUTION(BACKWARD_DATA, BWD_DATA, DY, W, DX),
  [MRT_DNN_CONV_DW] = CONVOLUTION(BACKWARD_FILTER, BWD_FILTER, X, DY, DW),
};

static descriptor manner(making *m) {
  const mrt_dnn_shape *s = &m->p->shape;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  descriptor d = make(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set_type(m, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  set(m, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
      &mode);
  set_int(m, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  set(m, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2,
      s->stride);
  set(m, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2,
      s->padding);
  set(m, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2,
      s->padding);
  set(m, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, s->dilation);
  return finish(m, d);
}

/* y = sum + bias */
static descriptor add_bias(making *m, descriptor sum) {
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  descriptor add = make(m, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(m, add, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set_type(m, add, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  finish(m, add);
  descriptor d = make(m, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  refer(m, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add);
  refer(m, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum);
  refer(m, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, operand(m, 3));
  refer(m, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, operand(m, 2));
  return finish(m, d);
}

/* Its operations; how many. */
static int convolve(making *m, descriptor *ops) {
  const mrt_dnn_shape *s = &m->p->shape;
  const form *f = &convolutions[s->kind];
  bool biased = s->count > 3;
  descriptor result = biased ? between(m, 0, &s->of[2]) : operand(m, 2);
  ops[0] = make(m, f->type);
  refer(m, ops[0], f->operand[0], operand(m, 0));
  refer(m, ops[0], f->operand[1], operand(m, 1));
  refer(m, ops[0], f->operand[2], result);
  refer(m, ops[0], f->what, manner(m));
  set_float(m, ops[0], f->alpha, 1);
  set_float(m, ops[0], f->beta, 0);
  finish(m, ops[0]);
  if (biased) ops[1] = add_bias(m, result);
  return biased ? 2 : 1;
}

/* ---- graphs -------------------------------------------------------------- */

static descriptor graph_of(making *m, const descriptor *ops, int count) {
  descriptor d = make(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(m, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
      &m->lib->handle);
  set(m, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
      ops);
  return finish(m, d);
}

/* ---- attention ----------------------------------------------------------- */

#if CUDNN_VERSION >= 92100
#define SDPA(name) CUDNN_ATTR_OPERATION_SDPA_FWD_##name
#define MASK(name) CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_##name
static const cudnnBackendAttributeName_t attention[MRT_DNN_OPERANDS] = {
  SDPA(QDESC), SDPA(KDESC), SDPA(VDESC), SDPA(ODESC), SDPA(STATSDESC)
};

static descriptor number(making *m, mrt_dnn_number id) {
  static const int64_t one[] = { 1, 1, 1, 1 };
  return tensor(m, id, CUDNN_DATA_FLOAT, one, one, false, true);
}

/* Keys after the query are not seen: those with row >= column are. */
static void mask(making *m, descriptor op) {
  const int64_t *q = m->p->shape.of[0].dims, *k = m->p->shape.of[1].dims;
  mrt_dnn_tensor scores = { .dims = { q[0], q[1], q[2], k[2] } };
  scores.strides[3] = 1;
  for (int i = 2; i >= 0; i--)
    scores.strides[i] = scores.strides[i + 1] * scores.dims[i + 1];
  cudnnPointwiseMode_t seen = CUDNN_POINTWISE_CMP_GE;
  descriptor d = make(m, CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR);
  refer(m, d, MASK(XDESC), between(m, 0, &scores));
  refer(m, d, MASK(BDESC), number(m, MRT_DNN_LOWEST));
  refer(m, d, MASK(YDESC), between(m, 1, &scores));
  set(m, d, MASK(COMPARISON_MODE), CUDNN_TYPE_POINTWISE_MODE, 1, &seen);
  finish(m, d);
  refer(m, op, SDPA(SUBGRAPH), graph_of(m, &d, 1));
  set_int(m, op, SDPA(SUBGRAPH_INPUT_UID), MRT_DNN_IDS);
  set_int(m, op, SDPA(SUBGRAPH_OUTPUT_UID), MRT_DNN_IDS + 1);
}

static int attend(making *m, descriptor *ops) {
  if (m->lib->number < ATTENTION_SINCE) m->status = CUDNN_STATUS_NOT_SUPPORTED;
  ops[0] = make(m, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  for (int i = 0; i < MRT_DNN_OPERANDS; i++)
    refer(m, ops[0], attention[i], operand(m, i));
  refer(m, ops[0], SDPA(SCALEDESC), number(m, MRT_DNN_SCALE));
  if (m->p->shape.causal) mask(m, ops[0]);
  finish(m, ops[0]);
  return 1;
}
#else
static int attend(making *m, descriptor *ops) {
  (void)ops;
  m->status = CUDNN_STATUS_NOT_SUPPORTED;
  return 0;
}
#endif

/* ---- engines ------------------------------------------------------------- */

/* Notes that no engine may have: bits that differ from run to run, sums that
 * are rounded on the way, transforms that lose digits. */
static bool is_unfit(cudnnBackendNumericalNote_t note) {
  return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
         note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
         note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
         note == CUDNN_NUMERICAL_NOTE_FFT ||
         note == CUDNN_NUMERICAL_NOTE_WINOGRAD;
}

/* Of engines that are compiled here the notes say less; so where there are
 * others, for convolutions, those are taken. */
static bool is_made_here(const mrt_dnn_shape *s,
                         cudnnBackendBehaviorNote_t note) {
  return s->kind != MRT_DNN_ATTEND &&
         note == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
}

/* How many notes there are; NOTES + 1: too many, or nobody knows. */
static int64_t ask(making *m, descriptor engine,
                   cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, void *notes) {
  int64_t n = 0;
  bool told = !m->lib->get(engine, name, type, NOTES, &n, notes) && n <= NOTES;
  return told ? n : NOTES + 1;
}

static bool is_permitted(making *m, descriptor config) {
  const mrt_dnn_shape *s = &m->p->shape;
  cudnnBackendNumericalNote_t note[NOTES];
  cudnnBackendBehaviorNote_t way[NOTES];
  int64_t n = 0;
  descriptor engine = make(m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  if (m->status ||
      m->lib->get(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine) ||
      n != 1)
    return false;
  n = ask(m, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
          CUDNN_TYPE_NUMERICAL_NOTE, note);
  bool units = false; /* matrix units: f32 would be rounded to tf32 there, and
                         16 bits without them are slower than ours */
  for (int64_t i = 0; i < n; i++) {
    if (n > NOTES || is_unfit(note[i])) return false;
    units = units || note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  }
  if (units == (s->of[0].dtype == MRT_f32)) return false;
  n = ask(m, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
          way);
  for (int64_t i = 0; i < n; i++)
    if (n > NOTES || is_made_here(s, way[i])) return false;
  return true;
}

static bool plan_with(making *m, descriptor config) {
  int64_t n = 0, bytes = 0;
  descriptor d = make(m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set(m, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
      &m->lib->handle);
  refer(m, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (m->status || m->lib->finalize(d) ||
      m->lib->get(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                  1, &n, &bytes) ||
      n != 1 || bytes < 0 || bytes > MOST)
    return false;
  m->p->plan = d, m->p->workspace = bytes;
  return true;
}

/* The first of those that the library ranks in this way. */
static bool choose(making *m, descriptor graph, cudnnBackendHeurMode_t mode) {
  descriptor configs[RANKED];
  int64_t n = 0;
  descriptor d = make(m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  refer(m, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(m, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (m->status || m->lib->finalize(d)) return false;
  for (int i = 0; i < RANKED; i++)
    configs[i] = make(m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (m->status ||
      m->lib->get(d, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                  CUDNN_TYPE_BACKEND_DESCRIPTOR, RANKED, &n, configs))
    return false;
  for (int64_t i = 0; i < n && i < RANKED; i++)
    if (is_permitted(m, configs[i]) && plan_with(m, configs[i])) return true;
  return false;
}

cudnnStatus_t mrt_dnn_build(const mrt_dnn_library *l, mrt_dnn *p) {
  making m = { l, p, CUDNN_STATUS_SUCCESS };
  descriptor ops[2], graph;
  bool attends = p->shape.kind == MRT_DNN_ATTEND;
  int count = attends ? attend(&m, ops) : convolve(&m, ops);
  graph = graph_of(&m, ops, count);
  if (m.status) return m.status;
  if (choose(&m, graph, CUDNN_HEUR_MODE_A) ||
      choose(&m, graph, CUDNN_HEUR_MODE_FALLBACK))
    return CUDNN_STATUS_SUCCESS;
  return CUDNN_STATUS_NOT_SUPPORTED;
}
#else
typedef int mrt_dnn_nothing; /* a file is not empty */
#endif
