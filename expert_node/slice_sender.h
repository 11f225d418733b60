// expert_node/slice_sender.h
//
// Gives slices of experts to other machines' drives: ExpertService.ReadSlices
// without its transport. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/base/model_spec.h"
#include "expert_node/slice_queue.h"
#include "expert_node/storage/expert_store.h"
#include "proto/expert.pb.h"

namespace deltafin {

class SliceSender {
 public:
  // Runs in memory at once, of copies and of what layers wait for each. Further
  // callers wait for their turn, up to so many; more are refused.
  static constexpr int kMaxReading = 4;
  static constexpr int kMaxWaiting = 64;

  // `held` must outlive the object; its Read never asks the network unless the
  // owner of this means it to. `copies_at_once`: copies that are read at the
  // same time; 1 where they share a drive with layers.
  SliceSender(const ModelSpec& spec, std::string manifest_digest,
              ExpertStore& held, int copies_at_once = kMaxReading);

  // Reads the run and hands it on slice by slice, ascending. A copy waits until
  // those before it are read and the budget allows for it, which holds for all
  // callers together; what a layer waits for does not. `write` may block and
  // returns false when the caller is gone; `cancelled` is asked before each
  // step. Errors: FAILED_PRECONDITION for another model; INVALID_ARGUMENT for a
  // run outside it; RESOURCE_EXHAUSTED with too many callers; CANCELLED;
  // NOT_FOUND, DATA_LOSS and others of the store, before anything is written.
  absl::Status Send(const v1::ReadSlicesRequest& request,
                    absl::FunctionRef<bool()> cancelled,
                    absl::FunctionRef<bool(const v1::SliceBytes&)> write);

  // Of slices that were written, since the start.
  uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  absl::Status CheckRequest(const v1::ReadSlicesRequest& request) const;
  // Reads the run once it is its turn to.
  absl::Status Read(const v1::ReadSlicesRequest& request,
                    std::span<uint8_t* const> slices,
                    absl::FunctionRef<bool()> cancelled);

  const ExpertShape shape_;
  const int first_layer_;
  const int num_layers_;
  const int num_experts_;
  const std::string manifest_digest_;
  ExpertStore& held_;
  std::atomic<uint64_t> bytes_sent_{0};
  // Whose bytes are in memory. A machine that copies and takes its time leaves
  // room for layers.
  SliceQueue layers_{kMaxReading, kMaxWaiting};
  SliceQueue copies_{kMaxReading, kMaxWaiting};
  SliceQueue reads_of_copies_;
};

}  // namespace deltafin
