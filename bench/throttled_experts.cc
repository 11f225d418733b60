#include "bench/throttled_experts.h"

#include <algorithm>
#include <thread>

#include "absl/container/flat_hash_set.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace deltafin::bench {

absl::Status ThrottledExperts::Start(uint64_t /*step*/, int layer,
                                     const RoutedTokens& routed) {
  const absl::Time begun = absl::Now();
  ASSIGN_OR_RETURN(sums_, compute_(layer, routed));
  const absl::Time computed = absl::Now();
  double read = 0;
  if (options_.read_rate > 0) {
    read = CountMisses(layer, routed) * expert_bytes_ / options_.read_rate;
    // Sleeping is too coarse for what one small expert takes.
    const absl::Time until = computed + absl::Seconds(read);
    while (absl::Now() < until) std::this_thread::yield();
  }
  const double compute = absl::ToDoubleSeconds(computed - begun);
  LayerTrace trace;
  trace.layer = layer;
  trace.waited = compute + read;
  trace.node = "here";
  trace.read = read;
  trace.compute = compute;
  trace_.Add(trace);
  timings_.read += read;
  charged_ += read;
  timings_.compute += compute;
  return absl::OkStatus();
}

int ThrottledExperts::CountMisses(int layer, const RoutedTokens& routed) {
  absl::flat_hash_set<int32_t> distinct(routed.experts.begin(),
                                        routed.experts.end());
  int misses = 0;
  for (const int32_t expert : distinct) {
    const std::pair<int, int32_t> key = {layer, expert};
    const auto found = std::find(resident_.begin(), resident_.end(), key);
    if (found == resident_.end()) {
      ++misses;
      resident_.push_front(key);
    } else {
      resident_.splice(resident_.begin(), resident_, found);
    }
  }
  while (std::ssize(resident_) > options_.tier) resident_.pop_back();
  return misses;
}

}  // namespace deltafin::bench
