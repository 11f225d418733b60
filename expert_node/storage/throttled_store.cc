#include "expert_node/storage/throttled_store.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/check.h"

namespace deltafin {

ThrottledStore::ThrottledStore(std::unique_ptr<ExpertStore> lower,
                               double bytes_per_second)
    : lower_(std::move(lower)), bytes_per_second_(bytes_per_second) {
  CHECK(bytes_per_second > 0);
}

absl::StatusOr<uint64_t> ThrottledStore::Read(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int slice)> ready) {
  return lower_->Read(key, run, out, [&](int slice) {
    const ExpertShape& of = shape();
    absl::SleepFor(
        Delivered(of.slice_offset(slice + 1) - of.slice_offset(slice)) -
        absl::Now());
    ready(slice);
  });
}

absl::Time ThrottledStore::Delivered(uint64_t bytes) {
  MutexLock lock(mutex_);
  busy_until_ = std::max(busy_until_, absl::Now()) +
                absl::Seconds(static_cast<double>(bytes) / bytes_per_second_);
  return busy_until_;
}

}  // namespace deltafin
