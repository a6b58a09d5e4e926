/* emulate_dnn.cc -- descriptors as cuDNN's manual has them
 *
 * An attribute that a descriptor does not have, of another type or number, one
 * that is set too late or left out, and a reference to what is not finalized
 * are refused.  What operations make of them is in emulate_dnn_run.cc.
 *
 * SPDX-License-Identifier: MIT */
#include "emulate_dnn.h"

struct cudnnContext {
  cudaStream_t stream;
};

namespace dnn {

/* ---- what attributes there are ------------------------------------------- */

enum need { MAY, MUST, READ };

struct rule {
  int of, name, type;
  int64_t least, most;
  need is;
  int target; /* type of a descriptor that is referred to; -1: any */
};

#define OF(descriptor) CUDNN_BACKEND_##descriptor##_DESCRIPTOR
#define RULE(of, name, t, n)                                                   \
  { OF(of), CUDNN_ATTR_##name, CUDNN_TYPE_##t, n, n, MUST, -1 }
#define RULE_MAY(of, name, t)                                                  \
  { OF(of), CUDNN_ATTR_##name, CUDNN_TYPE_##t, 1, 1, MAY, -1 }
#define RULE_READ(of, name, t)                                                 \
  { OF(of), CUDNN_ATTR_##name, CUDNN_TYPE_##t, 0, 64, READ, -1 }
#define REFER(of, name, to)                                                    \
  {                                                                            \
    OF(of), CUDNN_ATTR_##name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MUST,      \
        OF(to)                                                                 \
  }
#define REFER_MAY(of, name, to)                                                \
  {                                                                            \
    OF(of), CUDNN_ATTR_##name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, MAY,       \
        OF(to)                                                                 \
  }
#define CONVOLUTION(of, way, a, b, c)                                          \
  REFER(of, OPERATION_CONVOLUTION_##way##_##a, TENSOR),                        \
      REFER(of, OPERATION_CONVOLUTION_##way##_##b, TENSOR),                    \
      REFER(of, OPERATION_CONVOLUTION_##way##_##c, TENSOR),                    \
      REFER(of, OPERATION_CONVOLUTION_##way##_CONV_DESC, CONVOLUTION),         \
      RULE(of, OPERATION_CONVOLUTION_##way##_ALPHA, FLOAT, 1),                 \
      RULE(of, OPERATION_CONVOLUTION_##way##_BETA, FLOAT, 1)
static const rule rules[] = {
  RULE(TENSOR, TENSOR_UNIQUE_ID, INT64, 1),
  RULE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1),
  RULE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1),
  RULE(TENSOR, TENSOR_DIMENSIONS, INT64, 4),
  RULE(TENSOR, TENSOR_STRIDES, INT64, 4),
  RULE_MAY(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN),
  RULE_MAY(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN),
  RULE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1),
  RULE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1),
  RULE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1),
  RULE(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 2),
  RULE(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 2),
  RULE(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 2),
  RULE(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 2),
  CONVOLUTION(OPERATION_CONVOLUTION_FORWARD, FORWARD, X, W, Y),
  CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_DATA, BWD_DATA, DX, W, DY),
  CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
  RULE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1),
  RULE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1),
  REFER(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, POINTWISE),
  REFER(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, TENSOR),
  RULE_MAY(POINTWISE, POINTWISE_AXIS, INT64),
  REFER_MAY(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, TENSOR),
  REFER_MAY(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, TENSOR),
  REFER(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, TENSOR),
  RULE(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1),
  REFER(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, TENSOR),
  REFER(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, TENSOR),
  REFER(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, TENSOR),
  REFER(OPERATION_MATMUL, OPERATION_MATMUL_DESC, MATMUL),
  RULE(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1),
  RULE(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1),
  REFER(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, TENSOR),
  REFER(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, TENSOR),
  REFER(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, REDUCTION),
  REFER(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, TENSOR),
  REFER(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, TENSOR),
  RULE_MAY(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE),
  { OF(OPERATIONGRAPH), CUDNN_ATTR_OPERATIONGRAPH_OPS,
    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 32, MUST, -1 },
  REFER(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, OPERATIONGRAPH),
  RULE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1),
  RULE_READ(ENGINEHEUR, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR),
  RULE_READ(ENGINECFG, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR),
  RULE_READ(ENGINE, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE),
  RULE_READ(ENGINE, ENGINE_BEHAVIOR_NOTE, BEHAVIOR_NOTE),
  RULE_MAY(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE),
  REFER(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, ENGINECFG),
  RULE_READ(EXECUTION_PLAN, EXECUTION_PLAN_WORKSPACE_SIZE, INT64),
  { OF(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1,
    64, MUST, -1 },
  { OF(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
    CUDNN_TYPE_VOID_PTR, 1, 64, MUST, -1 },
  RULE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1),
};

static const rule *rule_of(int descriptor, int name) {
  for (const rule &r : rules)
    if (r.of == descriptor && r.name == name) return &r;
  return NULL;
}

static size_t size_of(int type) {
  switch (type) {
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    return 8;
  case CUDNN_TYPE_BOOLEAN:
    return 1;
  default:
    return 4;
  }
}

/* ---- reading them -------------------------------------------------------- */

const object *object::to(int name) const {
  auto found = has.find(name);
  return found == has.end() ? NULL : found->second.objects.at(0).get();
}
int64_t object::whole(int name, int64_t preset) const {
  auto found = has.find(name);
  int64_t n = 0;
  if (found == has.end()) return preset;
  memcpy(&n, found->second.bytes.data(),
         std::min(found->second.bytes.size(), sizeof n));
  return n;
}
const int64_t *object::list(int name) const {
  return (const int64_t *)has.at(name).bytes.data();
}

tensor tensor_of(const object &o) {
  int type = (int)o.whole(CUDNN_ATTR_TENSOR_DATA_TYPE);
  tensor t = {};
  t.id = o.whole(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  t.dtype = type == CUDNN_DATA_HALF       ? MRT_f16
            : type == CUDNN_DATA_BFLOAT16 ? MRT_bf16
                                          : MRT_f32; /* whole ones too */
  memcpy(t.dims, o.list(CUDNN_ATTR_TENSOR_DIMENSIONS), sizeof t.dims);
  memcpy(t.strides, o.list(CUDNN_ATTR_TENSOR_STRIDES), sizeof t.strides);
  t.is_virtual = o.whole(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  t.by_value = o.whole(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  return t;
}

/* ---- setting them -------------------------------------------------------- */

static object *at(cudnnBackendDescriptor_t d) {
  return d ? ((object_ref *)d)->get() : NULL;
}

static cudnnStatus_t set(object *o, int name, int type, int64_t count,
                         const void *from) {
  if (!o || !from) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const rule *r = rule_of(o->type, name);
  if (!r || r->is == READ || o->final) return CUDNN_STATUS_BAD_PARAM;
  if (type != r->type) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
  if (count < r->least || count > r->most) return CUDNN_STATUS_BAD_PARAM;
  value v = { count, {}, {} };
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (int64_t i = 0; i < count; i++) {
      void *d = ((void *const *)from)[i];
      if (!d) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
      if (!at(d)->final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
      if (r->target >= 0 && at(d)->type != r->target)
        return CUDNN_STATUS_BAD_PARAM;
      v.objects.push_back(*(object_ref *)d);
    }
  else
    v.bytes.assign((const char *)from,
                   (const char *)from + count * size_of(type));
  o->has[name] = v;
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize(object *o) {
  if (!o) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  for (const rule &r : rules)
    if (r.of == o->type && r.is == MUST && !o->has.count(r.name))
      return CUDNN_STATUS_BAD_PARAM;
  if (o->type == OF(EXECUTION_PLAN)) {
    const object *config = o->to(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    o->engine = config->engine, o->graph = config->graph;
    if (!can_plan(o->engine)) return CUDNN_STATUS_NOT_SUPPORTED;
  }
  cudnnStatus_t s = check(*o);
  o->final = s == CUDNN_STATUS_SUCCESS;
  return s;
}

/* ---- answers ------------------------------------------------------------- */

/* Descriptors that the caller has made become these. */
static void answer(const std::vector<int> &engines, const object_ref &graph,
                   int64_t most, int64_t *count, void **to) {
  *count = (int64_t)engines.size();
  for (int64_t i = 0; i < *count && i < most; i++) {
    object *o = at(to[i]);
    o->engine = engines[i], o->graph = graph, o->final = true;
  }
  if (most && *count > most) *count = most;
}

static cudnnStatus_t get(object *o, int name, int type, int64_t most,
                         int64_t *count, void *to) {
  if (!o || (most && !to)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const rule *r = rule_of(o->type, name);
  if (!o->final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (!r || r->is != READ || r->type != type) return CUDNN_STATUS_BAD_PARAM;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    const value &v = o->has.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    answer(ranked(*v.objects[0], (int)o->whole(CUDNN_ATTR_ENGINEHEUR_MODE)),
           v.objects[0], most, count, (void **)to);
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    answer({ o->engine }, o->graph, most, count, (void **)to);
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    auto notes = notes_of(o->engine, *o->graph);
    *count = (int64_t)notes.size();
    for (int64_t i = 0; i < *count && i < most; i++)
      ((cudnnBackendNumericalNote_t *)to)[i] = notes[i];
  } else if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
    *count = most && is_compiled_here(o->engine, *o->graph);
    if (*count)
      *(cudnnBackendBehaviorNote_t *)to =
          CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  } else {
    *count = 1;
    *(int64_t *)to = workspace_of(o->engine, *o->graph);
  }
  return CUDNN_STATUS_SUCCESS;
}

} // namespace dnn

/* ---- the library's functions --------------------------------------------- */

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_EXECUTION_FAILED
             ? "CUDNN_STATUS_EXECUTION_FAILED"
             : "CUDNN_STATUS_BAD_PARAM";
}
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  *handle = new cudnnContext{ NULL };
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *to) {
  dnn::object o = { type, false, {}, dnn::NO_ENGINE, NULL };
  *to = new dnn::object_ref(std::make_shared<dnn::object>(o));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  delete (dnn::object_ref *)d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  return dnn::finalize(dnn::at(d));
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *from) {
  return dnn::set(dnn::at(d), name, type, count, from);
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t most, int64_t *count, void *to) {
  return dnn::get(dnn::at(d), name, type, most, count, to);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const dnn::object *p = dnn::at(plan), *with = dnn::at(pack);
  if (!handle || !p || !with) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (!p->final || !with->final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  return dnn::execute(*p, *with, handle->stream);
}
