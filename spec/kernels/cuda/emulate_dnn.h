/* emulate_dnn.h -- what the parts of the emulated cuDNN share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_EMULATE_DNN_H
#define MRT_EMULATE_DNN_H

#include "cuda.cuh"
#include "cudnn.h"
#include "emulate_inside.h"

#include <map>

namespace dnn {

struct object;
typedef std::shared_ptr<object> object_ref;

/* Of an attribute: bytes, or descriptors. */
struct value {
  int64_t count;
  std::vector<char> bytes;
  std::vector<object_ref> objects;
};

enum { NO_ENGINE = -1 };

struct object {
  int type;
  bool final;
  std::map<int, value> has;
  int engine;       /* of a configuration and what is made of it */
  object_ref graph; /* ditto */

  const object *to(int name) const;
  int64_t whole(int name, int64_t preset = 0) const;
  const int64_t *list(int name) const;
};

struct tensor {
  int64_t id, dims[4], strides[4];
  int dtype; /* ours */
  bool is_virtual, by_value;
};
tensor tensor_of(const object &o);

/* Whether numbers make sense, once all attributes are there. */
cudnnStatus_t check(const object &o);

/* The engines that are ranked for a graph; notes of one; its workspace. */
std::vector<int> ranked(const object &graph, int mode);
std::vector<cudnnBackendNumericalNote_t> notes_of(int engine,
                                                  const object &graph);
bool is_compiled_here(int engine, const object &graph);
int64_t workspace_of(int engine, const object &graph);
bool can_plan(int engine);

/* Queue what a plan does with a pack's addresses. */
cudnnStatus_t execute(const object &plan, const object &pack,
                      cudaStream_t stream);

} // namespace dnn

#endif
