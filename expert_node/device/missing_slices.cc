#include "expert_node/device/missing_slices.h"

#include <algorithm>
#include <bit>

namespace deltafin {
namespace {

// Of a new time in the mean.
constexpr double kNewest = 0.125;

void AddTo(absl::Duration& mean, absl::Duration time) {
  mean = mean == absl::ZeroDuration() ? time : mean + kNewest * (time - mean);
}

size_t SizeOf(size_t num_tokens, size_t num_sizes) {
  return std::min<size_t>(std::bit_width(num_tokens), num_sizes - 1);
}

}  // namespace

void SliceTimes::AddBrought(int feeder, absl::Duration time) {
  MutexLock lock(mutex_);
  AddTo(brought_[feeder], time);
}

void SliceTimes::AddComputed(size_t num_tokens, absl::Duration time) {
  MutexLock lock(mutex_);
  AddTo(computed_[SizeOf(num_tokens, kSizes)], time);
}

absl::Duration SliceTimes::brought(int feeder) const {
  MutexLock lock(mutex_);
  return brought_[feeder];
}

absl::Duration SliceTimes::computed(size_t num_tokens) const {
  MutexLock lock(mutex_);
  return computed_[SizeOf(num_tokens, kSizes)];
}

MissingSlices::MissingSlices(int num_feeders, const SliceTimes& times,
                             const Clock& clock)
    : times_(times), clock_(clock), feeders_(num_feeders) {}

void MissingSlices::Add(int feeder, const MissingSlice& slice) {
  MutexLock lock(mutex_);
  feeders_[feeder].slices.push_back(slice);
}

std::optional<MissingSlice> MissingSlices::TakeForFeeder(int feeder) {
  MutexLock lock(mutex_);
  Feeder& mine = feeders_[feeder];
  if (mine.slices.empty()) return std::nullopt;
  const MissingSlice slice = mine.slices.front();
  mine.slices.pop_front();
  mine.free_at =
      std::max(mine.free_at, clock_.Elapsed()) + times_.brought(feeder);
  return slice;
}

absl::Duration MissingSlices::EndOf(int feeder, absl::Duration now) const {
  const Feeder& of = feeders_[feeder];
  return std::max(of.free_at, now) +
         static_cast<double>(of.slices.size()) * times_.brought(feeder);
}

int MissingSlices::FeederToHelp() const {
  const absl::Duration now = clock_.Elapsed();
  int last = -1;
  for (size_t f = 0; f < feeders_.size(); ++f) {
    if (feeders_[f].slices.empty()) continue;
    const int feeder = static_cast<int>(f);
    if (last < 0 || EndOf(feeder, now) > EndOf(last, now)) last = feeder;
  }
  if (last < 0 || times_.brought(last) == absl::ZeroDuration()) return last;
  const size_t num_tokens = feeders_[last].slices.front().num_tokens;
  return now + times_.computed(num_tokens) < EndOf(last, now) ? last : -1;
}

bool MissingSlices::HasForProcessor() const {
  MutexLock lock(mutex_);
  return FeederToHelp() >= 0;
}

std::optional<MissingSlice> MissingSlices::TakeForProcessor() {
  MutexLock lock(mutex_);
  const int feeder = FeederToHelp();
  if (feeder < 0) return std::nullopt;
  const MissingSlice slice = feeders_[feeder].slices.front();
  feeders_[feeder].slices.pop_front();
  return slice;
}

}  // namespace deltafin
