// expert_node/layer_work.h
//
// One layer's work as the engine takes it: a LayerRequest whose every field has
// been checked against the model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/model_spec.h"
#include "expert_node/storage/expected_slices.h"
#include "kernels/expert_weights.h"
#include "proto/expert.pb.h"

namespace deltafin {

// A run of slices of one expert, for one token.
struct Assignment {
  int expert = 0;
  SliceRun run;
  float weight = 0;  // router weight
};

struct LayerWork {
  // The request's name, returned with its reply.
  uint64_t epoch = 0;
  uint64_t step = 0;
  int layer = 0;
  int part = 0;
  uint32_t num_parts = 0;  // parts of the layer that this node gets; 0 untold

  int num_tokens = 0;                   // T
  std::vector<float> latent;            // [T, L]
  std::vector<int> assignment_end;      // [T]
  std::vector<Assignment> assignments;  // of token t: [end[t - 1], end[t])

  std::span<const Assignment> assignments_of(int token) const {
    const int begin = token == 0 ? 0 : assignment_end[token - 1];
    return std::span(assignments).subspan(begin, assignment_end[token] - begin);
  }
};

// Checks every field of a request and converts it. `max_tokens`: the most
// tokens a request may have. Errors: INVALID_ARGUMENT naming the field, its
// value and what is allowed: layer without routed experts; part beyond the
// number of parts; token count, latent bytes, list lengths or ends that
// disagree; expert or slices out of range; more experts for a token than the
// model chooses; a slice twice for one token; a weight that is not finite.
absl::StatusOr<LayerWork> CheckLayerRequest(const v1::LayerRequest& request,
                                            const ModelSpec& spec,
                                            int max_tokens);

// Checks every field of what a coordinator expects and converts it, at most
// every slice of the layer once over. Errors: INVALID_ARGUMENT as above.
absl::StatusOr<std::vector<ExpectedRun>> CheckExpectExperts(
    const v1::ExpectExperts& request, const ModelSpec& spec);

// Bytes of the largest request that can pass the check.
int64_t MaxLayerRequestBytes(const ModelSpec& spec, int max_tokens);

}  // namespace deltafin
