// Input: the bytes of one message of a node's stream. A reply counts as a whole
// or leaves no trace.

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "coordinator/cluster/cut_policy.h"
#include "coordinator/engine/reduction.h"
#include "kernels/kernel_registry.h"

using deltafin::DispatchPlan;
using deltafin::Reduction;
using deltafin::ReplyUse;
using deltafin::v1::LayerReply;

namespace {

constexpr int kTokens = 2;
constexpr int kLatent = 2;

// One node computes experts 0 and 1, of two slices each, for both tokens.
DispatchPlan Plan() {
  const std::vector<int32_t> experts = {0, 1, 0, 1};
  const std::vector<float> weights = {1, 1, 1, 1};
  DispatchPlan plan;
  plan.Build(
      {5, 10, 3}, {kTokens, 2, experts, weights, {}}, 1,
      [](int32_t, std::vector<deltafin::NodeRun>* runs) {
        *runs = {{0, {0, 2}}};
      },
      [](int32_t) { return 1.0; });
  plan.part({0, 0}).sent = absl::UnixEpoch();
  return plan;
}

void CheckCounted(const LayerReply& reply, const DispatchPlan& plan,
                  const Reduction& reduction) {
  CHECK(reply.epoch() == 5 && reply.step() == 10 && reply.layer() == 3);
  CHECK(reply.part() == 0);
  CHECK(plan.complete());
  if (reply.status_code() != 0) {
    CHECK(absl::IsOutOfRange(reduction.status()));
    CHECK(reply.error_expert() < 2 && reply.error_token() < kTokens);
    return;
  }
  CHECK_OK(reduction.status());
  CHECK(reply.slices_computed() == 8);
  CHECK(reply.sums().size() == kTokens * kLatent * sizeof(int64_t));
  CHECK(std::memcmp(reduction.totals().data(), reply.sums().data(),
                    reply.sums().size()) == 0);
}

void CheckUnused(const DispatchPlan& plan, const Reduction& reduction) {
  CHECK(plan.num_open(0) == 1 && !plan.complete());
  CHECK_OK(reduction.status());
  CHECK(std::all_of(reduction.totals().begin(), reduction.totals().end(),
                    [](int64_t total) { return total == 0; }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  DispatchPlan plan = Plan();
  LayerReply reply;
  if (!reply.ParseFromArray(bytes, static_cast<int>(size))) return 0;
  Reduction reduction(plan, deltafin::BestKernel().elementwise, kLatent);
  reduction.Begin();
  const auto use = reduction.Add(0, reply);
  if (use.ok() && *use == ReplyUse::kCounted) {
    CheckCounted(reply, plan, reduction);
  } else {
    CheckUnused(plan, reduction);
  }
  return 0;
}
