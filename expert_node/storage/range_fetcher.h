// expert_node/storage/range_fetcher.h
//
// One range of one URL; a range that is much slower than those before it is
// asked for a second time on another connection. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "expert_node/storage/http_range_reader.h"
#include "expert_node/storage/hub_options.h"

namespace deltafin {

struct RangeOutcome {
  absl::StatusOr<HttpAnswer> answer;
  uint64_t received = 0;  // right bytes at the front of wanted.out
};

class RangeFetcher {
 public:
  // `reader` must outlive the fetcher.
  RangeFetcher(const SlowRangeOptions& options, HttpRangeReader& reader);

  // Blocks. The second request asks for what has not arrived; the first of the
  // two that is complete counts and the other is cancelled.
  RangeOutcome Fetch(const TransferRequest& request);

  uint64_t reissues() const { return reissues_; }

 private:
  // Held by a second request while it is on its way.
  class Slot;

  // When a range of `bytes` that starts now is slow.
  absl::Time SlowFrom(uint64_t bytes);
  void Measure(uint64_t bytes, absl::Duration taken);

  const SlowRangeOptions options_;
  HttpRangeReader& reader_;
  std::atomic<uint64_t> reissues_{0};
  std::atomic<int> at_once_{0};
  Mutex mutex_;
  std::vector<double> rates_ ABSL_GUARDED_BY(mutex_);  // bytes per second
  size_t next_rate_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace deltafin
