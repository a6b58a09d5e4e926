/* graph.c -- a shape as a graph of cuDNN's descriptors, and its engine
 *
 * Of the engines that the library ranks, the first is taken that is as exact
 * as kernels of ours, gives the same bits each time, and needs a moderate
 * workspace.
 *
 * SPDX-License-Identifier: MIT */
#ifdef MRT_CUDNN_LIBRARY
#include "dnn/graph.h"

enum {
  RANKED = 16, /* engines that are looked at, each way */
  NOTES = 32   /* on an engine */
};

typedef mrt_dnn_descriptor descriptor;
typedef mrt_dnn_making making;

/* ---- descriptors --------------------------------------------------------- */

descriptor mrt_dnn_make(making *m, cudnnBackendDescriptorType_t type) {
  descriptor d = NULL;
  if (!m->status && m->p->count == MRT_DNN_MADE)
    m->status = CUDNN_STATUS_NOT_SUPPORTED;
  if (!m->status) m->status = m->lib->make(type, &d);
  if (!m->status) m->p->made[m->p->count++] = d;
  return m->status ? NULL : d;
}

void mrt_dnn_set(making *m, descriptor d, cudnnBackendAttributeName_t name,
                 cudnnBackendAttributeType_t type, int64_t count,
                 const void *value) {
  if (!m->status) m->status = m->lib->set(d, name, type, count, value);
}
void mrt_dnn_set_int(making *m, descriptor d, cudnnBackendAttributeName_t name,
                     int64_t value) {
  mrt_dnn_set(m, d, name, CUDNN_TYPE_INT64, 1, &value);
}
static void set_float(making *m, descriptor d, cudnnBackendAttributeName_t name,
                      float value) {
  mrt_dnn_set(m, d, name, CUDNN_TYPE_FLOAT, 1, &value);
}
void mrt_dnn_set_type(making *m, descriptor d, cudnnBackendAttributeName_t name,
                      cudnnDataType_t value) {
  mrt_dnn_set(m, d, name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
void mrt_dnn_refer(making *m, descriptor d, cudnnBackendAttributeName_t name,
                   descriptor to) {
  mrt_dnn_set(m, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}
descriptor mrt_dnn_finish(making *m, descriptor d) {
  if (!m->status) m->status = m->lib->finalize(d);
  return d;
}

/* ---- tensors ------------------------------------------------------------- */

static descriptor tensor(making *m, int64_t id, cudnnDataType_t type,
                         const int64_t *dims, const int64_t *strides,
                         mrt_dnn_place place) {
  static const bool yes = true;
  descriptor d = mrt_dnn_make(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  mrt_dnn_set_int(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  mrt_dnn_set_type(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  mrt_dnn_set_int(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, MRT_DNN_ALIGN);
  mrt_dnn_set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
  mrt_dnn_set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
  if (place == MRT_DNN_NOWHERE)
    mrt_dnn_set(m, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                &yes);
  if (place == MRT_DNN_ON_HOST)
    mrt_dnn_set(m, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1,
                &yes);
  return mrt_dnn_finish(m, d);
}

cudnnDataType_t mrt_dnn_type(int64_t dtype) {
  return dtype == MRT_f16    ? CUDNN_DATA_HALF
         : dtype == MRT_bf16 ? CUDNN_DATA_BFLOAT16
                             : CUDNN_DATA_FLOAT;
}
descriptor mrt_dnn_seen(making *m, int i, const mrt_dnn_tensor *as) {
  return tensor(m, i + 1, mrt_dnn_type(as->dtype), as->dims, as->strides,
                MRT_DNN_IN_MEMORY);
}
descriptor mrt_dnn_operand(making *m, int i) {
  return mrt_dnn_seen(m, i, &m->p->shape.of[i]);
}
descriptor mrt_dnn_between(making *m, cudnnDataType_t type, const int64_t *dims,
                           const int64_t *strides) {
  return tensor(m, MRT_DNN_IDS + m->between++, type, dims, strides,
                MRT_DNN_NOWHERE);
}
descriptor mrt_dnn_scalar(making *m, mrt_dnn_number id) {
  static const int64_t one[] = { 1, 1, 1, 1 };
  return tensor(m, id, CUDNN_DATA_FLOAT, one, one, MRT_DNN_ON_HOST);
}

/* ---- operations ---------------------------------------------------------- */

void mrt_dnn_operation(making *m, descriptor d) {
  mrt_dnn_finish(m, d);
  if (!m->status && m->count == MRT_DNN_OPERATIONS)
    m->status = CUDNN_STATUS_NOT_SUPPORTED;
  if (!m->status) m->op[m->count++] = d;
}

void mrt_dnn_point(making *m, const mrt_dnn_pointwise *p) {
  descriptor how = mrt_dnn_make(m, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  mrt_dnn_set(m, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
              &p->mode);
  mrt_dnn_set_type(m, how, CUDNN_ATTR_POINTWISE_MATH_PREC, p->in);
  if (p->axis) mrt_dnn_set_int(m, how, CUDNN_ATTR_POINTWISE_AXIS, p->axis);
  mrt_dnn_finish(m, how);
  descriptor d = mrt_dnn_make(m, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p->x);
  if (p->b) mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p->b);
  if (p->t) mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p->t);
  mrt_dnn_refer(m, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p->y);
  mrt_dnn_operation(m, d);
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
  descriptor d = mrt_dnn_make(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  mrt_dnn_set_type(m, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  mrt_dnn_set(m, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
              CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  mrt_dnn_set_int(m, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  mrt_dnn_set(m, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2,
              s->stride);
  mrt_dnn_set(m, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2,
              s->padding);
  mrt_dnn_set(m, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2,
              s->padding);
  mrt_dnn_set(m, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2,
              s->dilation);
  return mrt_dnn_finish(m, d);
}

static void convolve(making *m) {
  const mrt_dnn_shape *s = &m->p->shape;
  const form *f = &convolutions[s->kind];
  bool biased = s->count > 3;
  descriptor y = mrt_dnn_operand(m, 2), sum = y;
  if (biased)
    sum = mrt_dnn_between(m, CUDNN_DATA_FLOAT, s->of[2].dims, s->of[2].strides);
  descriptor d = mrt_dnn_make(m, f->type);
  mrt_dnn_refer(m, d, f->operand[0], mrt_dnn_operand(m, 0));
  mrt_dnn_refer(m, d, f->operand[1], mrt_dnn_operand(m, 1));
  mrt_dnn_refer(m, d, f->operand[2], sum);
  mrt_dnn_refer(m, d, f->what, manner(m));
  set_float(m, d, f->alpha, 1);
  set_float(m, d, f->beta, 0);
  mrt_dnn_operation(m, d);
  if (!biased) return;
  mrt_dnn_pointwise add = {
    .mode = CUDNN_POINTWISE_ADD, .x = sum, .b = mrt_dnn_operand(m, 3), .y = y
  };
  mrt_dnn_point(m, &add);
}

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
  return s->kind <= MRT_DNN_CONV_DW &&
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
  descriptor engine = mrt_dnn_make(m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
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
  bool attends = m->p->shape.kind >= MRT_DNN_ATTEND;
  int64_t n = 0, bytes = 0,
          most = attends ? MRT_DNN_MOST_ATTENTION : MRT_DNN_MOST;
  descriptor d = mrt_dnn_make(m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  mrt_dnn_set(m, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
              &m->lib->handle);
  mrt_dnn_refer(m, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (m->status || m->lib->finalize(d) ||
      m->lib->get(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                  1, &n, &bytes) ||
      n != 1 || bytes < 0 || bytes > most)
    return false;
  m->p->plan = d, m->p->workspace = bytes;
  return true;
}

/* The first of those that the library ranks in this way. */
static bool choose(making *m, descriptor graph, cudnnBackendHeurMode_t mode) {
  descriptor configs[RANKED];
  int64_t n = 0;
  descriptor d = mrt_dnn_make(m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  mrt_dnn_refer(m, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  mrt_dnn_set(m, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (m->status || m->lib->finalize(d)) return false;
  for (int i = 0; i < RANKED; i++)
    configs[i] = mrt_dnn_make(m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (m->status ||
      m->lib->get(d, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                  CUDNN_TYPE_BACKEND_DESCRIPTOR, RANKED, &n, configs))
    return false;
  for (int64_t i = 0; i < n && i < RANKED; i++)
    if (is_permitted(m, configs[i]) && plan_with(m, configs[i])) return true;
  return false;
}

static descriptor graph_of(making *m) {
  descriptor d = mrt_dnn_make(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  mrt_dnn_set(m, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
              &m->lib->handle);
  mrt_dnn_set(m, d, CUDNN_ATTR_OPERATIONGRAPH_OPS,
              CUDNN_TYPE_BACKEND_DESCRIPTOR, m->count, m->op);
  return mrt_dnn_finish(m, d);
}

cudnnStatus_t mrt_dnn_build(const mrt_dnn_library *l, mrt_dnn *p) {
  making m = { .lib = l, .p = p };
  if (p->shape.kind == MRT_DNN_ATTEND)
    mrt_dnn_attend(&m);
  else if (p->shape.kind == MRT_DNN_ATTEND_GRAD)
    mrt_dnn_attend_grad(&m);
  else
    convolve(&m);
  descriptor graph = graph_of(&m);
  if (m.status) return m.status;
  if (choose(&m, graph, CUDNN_HEUR_MODE_A) ||
      choose(&m, graph, CUDNN_HEUR_MODE_FALLBACK))
    return CUDNN_STATUS_SUCCESS;
  return CUDNN_STATUS_NOT_SUPPORTED;
}
#else
typedef int mrt_dnn_nothing; /* a file is not empty */
#endif
