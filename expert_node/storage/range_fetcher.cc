#include "expert_node/storage/range_fetcher.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"

namespace deltafin {
namespace {

constexpr size_t kMaxRates = 16;
// Shorter ranges say more about latency than about speed.
constexpr uint64_t kLeastMeasured = 16 << 10;

// Told by the reader's thread when one of two transfers is done.
class Done {
 public:
  void Tell() {
    MutexLock lock(mutex_);
    ++told_;
    changed_.NotifyAll();
  }
  // Blocks until `count` have been told.
  void Wait(int count) {
    MutexLock lock(mutex_);
    while (told_ < count) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int told_ ABSL_GUARDED_BY(mutex_) = 0;
};

bool IsComplete(HttpTransfer& transfer) {
  return transfer.done() && transfer.result().ok() &&
         transfer.result()->status / 100 == 2;
}

std::shared_ptr<HttpTransfer> StartTelling(HttpRangeReader& reader,
                                           TransferRequest request,
                                           std::shared_ptr<Done> done) {
  request.on_done = [done = std::move(done)] { done->Tell(); };
  return reader.Start(std::move(request));
}

// A second request for what is missing, beside the first.
RangeOutcome Race(HttpRangeReader& reader, const TransferRequest& request,
                  HttpTransfer& first, const std::shared_ptr<Done>& done) {
  const uint64_t at = first.received();
  std::vector<uint8_t> rest(request.wanted.out.size() - at);
  TransferRequest again = request;
  again.wanted.offset += at;
  again.wanted.out = rest;
  const auto second = StartTelling(reader, std::move(again), done);
  done->Wait(1);
  if (!IsComplete(first) && !IsComplete(*second)) done->Wait(2);
  if (!IsComplete(first) && IsComplete(*second)) {
    reader.Cancel(first);
    std::memcpy(request.wanted.out.data() + at, rest.data(), rest.size());
    return {second->result(), request.wanted.out.size()};
  }
  reader.Cancel(*second);
  return {first.result(), first.received()};
}

}  // namespace

class RangeFetcher::Slot {
 public:
  Slot(std::atomic<int>& taken, int most) : taken_(taken) {
    held_ = ++taken_ <= most;
  }
  ~Slot() { --taken_; }
  bool held() const { return held_; }

 private:
  std::atomic<int>& taken_;
  bool held_;
};

RangeFetcher::RangeFetcher(const SlowRangeOptions& options,
                           HttpRangeReader& reader)
    : options_(options), reader_(reader) {}

RangeOutcome RangeFetcher::Fetch(const TransferRequest& request) {
  const auto done = std::make_shared<Done>();
  const uint64_t bytes = request.wanted.out.size();
  const absl::Time start = absl::Now();
  const auto first = StartTelling(reader_, request, done);
  RangeOutcome outcome;
  if (first->WaitUntil(SlowFrom(bytes))) {
    outcome = {first->result(), first->received()};
  } else if (const Slot slot(at_once_, options_.max_at_once);
             slot.held() && first->received() < bytes) {
    ++reissues_;
    outcome = Race(reader_, request, *first, done);
  } else {
    first->WaitUntil(absl::InfiniteFuture());
    outcome = {first->result(), first->received()};
  }
  if (outcome.received == bytes) Measure(bytes, absl::Now() - start);
  return outcome;
}

absl::Time RangeFetcher::SlowFrom(uint64_t bytes) {
  std::vector<double> rates;
  {
    MutexLock lock(mutex_);
    rates = rates_;
  }
  const size_t least = static_cast<size_t>(std::max(options_.min_samples, 1));
  if (rates.size() < std::min(least, kMaxRates)) return absl::InfiniteFuture();
  const auto middle = rates.begin() + static_cast<int64_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return absl::Now() +
         std::max(options_.least,
                  absl::Seconds(options_.factor * static_cast<double>(bytes) /
                                *middle));
}

void RangeFetcher::Measure(uint64_t bytes, absl::Duration taken) {
  if (bytes < kLeastMeasured) return;
  const double rate =
      static_cast<double>(bytes) / std::max(absl::ToDoubleSeconds(taken), 1e-6);
  MutexLock lock(mutex_);
  if (rates_.size() < kMaxRates) {
    rates_.push_back(rate);
  } else {
    rates_[next_rate_++ % kMaxRates] = rate;
  }
}

}  // namespace deltafin
