#include "expert_node/storage/throttled_store.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/check.h"

namespace deltafin {
namespace {

// A slice of the full model and a bit: slices are moved as wholes.
constexpr uint64_t kPieceBytes = uint64_t{3} << 19;

}  // namespace

ThrottledDrive::ThrottledDrive(double bytes_per_second)
    : bytes_per_second_(bytes_per_second) {
  CHECK(bytes_per_second > 0);
}

void ThrottledDrive::Move(uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t piece = std::min(bytes, kPieceBytes);
    absl::SleepFor(Moved(piece) - absl::Now());
    bytes -= piece;
  }
}

absl::Time ThrottledDrive::Moved(uint64_t bytes) {
  MutexLock lock(mutex_);
  busy_until_ = std::max(busy_until_, absl::Now()) +
                absl::Seconds(static_cast<double>(bytes) / bytes_per_second_);
  bytes_moved_ += bytes;
  return busy_until_;
}

uint64_t ThrottledDrive::bytes_moved() const {
  MutexLock lock(mutex_);
  return bytes_moved_;
}

ThrottledStore::ThrottledStore(std::unique_ptr<ExpertStore> lower,
                               double bytes_per_second)
    : ThrottledStore(std::move(lower),
                     std::make_shared<ThrottledDrive>(bytes_per_second)) {}

ThrottledStore::ThrottledStore(std::unique_ptr<ExpertStore> lower,
                               std::shared_ptr<ThrottledDrive> drive)
    : lower_(std::move(lower)), drive_(std::move(drive)) {}

absl::StatusOr<uint64_t> ThrottledStore::Read(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int slice)> ready) {
  return lower_->Read(key, run, out, [&](int slice) {
    const ExpertShape& of = shape();
    drive_->Move(of.slice_offset(slice + 1) - of.slice_offset(slice));
    ready(slice);
  });
}

}  // namespace deltafin
