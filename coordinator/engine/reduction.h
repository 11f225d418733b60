// coordinator/engine/reduction.h
//
// Adds the nodes' replies of one layer to the totals, and proves that every
// (token, expert, slice) was answered exactly once. Replies are foreign bytes:
// each field is checked against the plan before use. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/engine/dispatch_plan.h"
#include "kernels/elementwise.h"

namespace deltafin {

enum class ReplyUse : uint8_t {
  kCounted,
  kDropped,  // late or duplicate: of an older epoch, step or layer, or of a
             // part that was answered before or done by others
};

class Reduction {
 public:
  // `plan` and `kernel` must outlive this. latent_size: L.
  Reduction(DispatchPlan& plan, const ElementwiseKernel& kernel,
            int latent_size);

  // Zeroes the totals, for the plan as it was just built.
  void Begin();

  // Takes one reply of `node` and marks its part answered in the plan. A reply
  // with OUT_OF_RANGE counts as an answer and shows in status(). Errors
  // (nothing of the reply is used, the part stays open): DATA_LOSS, the reply
  // is not an answer to what was asked; otherwise the node's own error.
  // Messages do not name the node: the caller does.
  absl::StatusOr<ReplyUse> Add(int node, const v1::LayerReply& reply);
  // Whether the last error of Add was the node's own, of the part that
  // reply.part() names; otherwise the node cannot be trusted.
  bool node_refused() const { return node_refused_; }

  // OK, or the OUT_OF_RANGE of the lowest (expert, token) over all replies.
  // Final when the plan is complete.
  absl::Status status() const;
  // The node that reported it.
  int error_node() const { return error_->node; }

  // [T, L], valid until the next Begin. REQUIRES: the plan is complete,
  // status() is OK.
  std::span<const int64_t> totals() const { return totals_; }

 private:
  struct ModelError {
    int32_t expert = 0;
    int32_t token = 0;
    int node = 0;
    std::string message;
  };

  absl::StatusOr<bool> IsOpen(int node, const v1::LayerReply& reply) const;
  absl::Status CheckRows(const PlannedPart& part,
                         const v1::LayerReply& reply) const;
  absl::Status AddRows(const PlannedPart& part, const v1::LayerReply& reply);
  absl::Status TakeError(int node, const PlannedPart& part,
                         const v1::LayerReply& reply);

  DispatchPlan& plan_;
  const ElementwiseKernel& kernel_;
  const int latent_size_;
  std::optional<ModelError> error_;
  std::vector<int64_t> totals_;
  bool node_refused_ = false;
};

}  // namespace deltafin
