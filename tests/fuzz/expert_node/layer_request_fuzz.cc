// Input: the bytes of one message of a coordinator's stream. What passes the
// checks must be safe to plan and to run: every index in range, every slice of
// a token once.

#include <cmath>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "expert_node/layer_work.h"
#include "expert_node/work_plan.h"

using deltafin::Assignment;
using deltafin::LayerWork;
using deltafin::ModelSpec;

namespace {

constexpr int kMaxTokens = 8;

// Small, so that mutations meet its bounds: layers 1..3, 8 experts of 3 slices,
// top 2, width 32.
ModelSpec Spec() {
  ModelSpec spec;
  spec.num_hidden_layers = 4;
  spec.first_k_dense_replace = 1;
  spec.num_experts = 8;
  spec.num_experts_per_token = 2;
  spec.routed_expert_hidden_size = 32;
  spec.moe_intermediate_size = 544;
  return spec;
}

// Returns the number of (expert, slice) pairs.
size_t CheckToken(std::span<const Assignment> assignments) {
  std::set<std::pair<int, int>> slices;
  std::set<int> experts;
  for (const Assignment& a : assignments) {
    CHECK(a.expert >= 0 && a.expert < 8);
    CHECK(a.run.first >= 0 && a.run.count >= 1);
    CHECK(a.run.first + a.run.count <= 3);
    CHECK(std::isfinite(a.weight));
    experts.insert(a.expert);
    for (int s = a.run.first; s < a.run.first + a.run.count; ++s) {
      CHECK(slices.emplace(a.expert, s).second);
    }
  }
  CHECK(experts.size() <= 2);
  return slices.size();
}

void CheckExpected(const deltafin::v1::ExpectExperts& request) {
  const auto runs = deltafin::CheckExpectExperts(request, Spec());
  if (!runs.ok()) {
    CHECK(absl::IsInvalidArgument(runs.status()));
    return;
  }
  CHECK(runs->size() <= 24);
  for (const deltafin::ExpectedRun& one : *runs) {
    CHECK(one.expert.layer >= 1 && one.expert.layer <= 3);
    CHECK(one.expert.expert >= 0 && one.expert.expert < 8);
    CHECK(one.run.first >= 0 && one.run.count >= 1);
    CHECK(one.run.first + one.run.count <= 3);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  deltafin::v1::NodeRequest request;
  if (!request.ParseFromArray(bytes, static_cast<int>(size))) return 0;
  CheckExpected(request.expect());
  const auto work =
      deltafin::CheckLayerRequest(request.layer(), Spec(), kMaxTokens);
  if (!work.ok()) {
    CHECK(absl::IsInvalidArgument(work.status()));
    CHECK(!work.status().message().empty());
    return 0;
  }
  CHECK(work->layer >= 1 && work->layer <= 3);
  CHECK(work->num_tokens >= 1 && work->num_tokens <= kMaxTokens);
  CHECK(work->num_parts == 0 ||
        static_cast<uint32_t>(work->part) < work->num_parts);
  CHECK(work->latent.size() == size_t{32} * work->num_tokens);
  CHECK(work->assignment_end.size() == static_cast<size_t>(work->num_tokens));
  size_t num_terms = 0;
  for (int t = 0; t < work->num_tokens; ++t) {
    num_terms += CheckToken(work->assignments_of(t));
  }
  const deltafin::WorkPlan plan =
      deltafin::PlanWork(deltafin::MergedWork(*work));
  CHECK(static_cast<size_t>(plan.num_terms) == num_terms);
  CHECK(plan.units.size() == plan.slices.size());
  return 0;
}
