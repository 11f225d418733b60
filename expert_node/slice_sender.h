// expert_node/slice_sender.h
//
// Gives slices of experts to other machines' drives: ExpertService.ReadSlices
// without its transport. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/base/model_spec.h"
#include "common/base/mutex.h"
#include "expert_node/storage/expert_store.h"
#include "proto/expert.pb.h"

namespace deltafin {

class SliceSender {
 public:
  // Runs read at once: each has its bytes in memory. Further callers wait for
  // their turn, up to so many; more are refused.
  static constexpr int kMaxReading = 4;
  static constexpr int kMaxWaiting = 64;

  // `held` must outlive the object; its Read never asks the network unless the
  // owner of this means it to.
  SliceSender(const ModelSpec& spec, std::string manifest_digest,
              ExpertStore& held);

  // Reads the run and hands it on slice by slice, ascending. `write` may block
  // and returns false when the caller is gone; `cancelled` is asked before each
  // step. Errors: FAILED_PRECONDITION for another model; INVALID_ARGUMENT for a
  // run outside it; RESOURCE_EXHAUSTED with too many callers; CANCELLED;
  // NOT_FOUND, DATA_LOSS and others of the store, before anything is written.
  absl::Status Send(const v1::ReadSlicesRequest& request,
                    absl::FunctionRef<bool()> cancelled,
                    absl::FunctionRef<bool(const v1::SliceBytes&)> write);

  // Of slices that were written, since the start.
  uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  class Turn;

  absl::Status CheckRequest(const v1::ReadSlicesRequest& request) const;
  absl::Status TakeTurn(absl::FunctionRef<bool()> cancelled);
  void EndTurn();

  const ExpertShape shape_;
  const int first_layer_;
  const int num_layers_;
  const int num_experts_;
  const std::string manifest_digest_;
  ExpertStore& held_;
  std::atomic<uint64_t> bytes_sent_{0};
  Mutex mutex_;
  CondVar turn_ended_;
  int num_reading_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace deltafin
