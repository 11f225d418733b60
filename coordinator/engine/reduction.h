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
             // part that was answered before
};

class Reduction {
 public:
  // `plan` and `kernel` must outlive this. latent_size: L.
  Reduction(const DispatchPlan& plan, const ElementwiseKernel& kernel,
            int latent_size);

  // Zeroes the totals and expects one reply for each part of the plan as it
  // stands now.
  void Begin();

  // Takes one reply of `node`. A reply with OUT_OF_RANGE counts as an answer
  // and shows in status(). Errors (nothing of the reply is used): DATA_LOSS,
  // the reply is not an answer to what was asked; otherwise the node's own
  // error. Messages do not name the node: the caller does.
  absl::StatusOr<ReplyUse> Add(int node, const v1::LayerReply& reply);

  bool complete() const { return num_open_ == 0; }
  int num_open(int node) const { return nodes_[node].num_open; }
  // A part of the node that is not answered. REQUIRES: num_open(node) > 0.
  const PlannedPart& first_open_part(int node) const;

  // OK, or the OUT_OF_RANGE of the lowest (expert, token) over all replies.
  // Final when complete.
  absl::Status status() const;
  // The node that reported it.
  int error_node() const { return error_->node; }

  // [T, L], valid until the next Begin. REQUIRES: complete, status() is OK.
  std::span<const int64_t> totals() const { return totals_; }

 private:
  struct NodeAnswers {
    std::vector<bool> answered;  // per part
    int num_open = 0;
  };
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

  const DispatchPlan& plan_;
  const ElementwiseKernel& kernel_;
  const int latent_size_;
  std::vector<NodeAnswers> nodes_;
  int num_open_ = 0;
  std::optional<ModelError> error_;
  std::vector<int64_t> totals_;
};

}  // namespace deltafin
