#include "expert_node/storage/memory_pressure.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// The group of version 2 that this process is in.
std::optional<std::string> UnifiedGroup(const MemorySources& sources) {
  std::ifstream file(sources.proc + "/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return std::nullopt;
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS" is the first
// line.
std::optional<absl::Duration> StalledIn(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word) || word != "some") return std::nullopt;
  while (file >> word) {
    if (!word.starts_with("total=")) continue;
    return absl::Microseconds(std::strtoll(word.c_str() + 6, nullptr, 10));
  }
  return std::nullopt;
}

absl::Duration Stalled(const MemorySources& sources) {
  std::optional<absl::Duration> stalled;
  if (const auto group = UnifiedGroup(sources)) {
    stalled = StalledIn(sources.cgroup + *group + "/memory.pressure");
  }
  if (!stalled) stalled = StalledIn(sources.proc + "/pressure/memory");
  return stalled.value_or(absl::ZeroDuration());
}

uint64_t MajorFaults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_majflt);
}

}  // namespace

absl::StatusOr<MemoryReading> ReadMemory(const MemorySources& sources) {
  MemoryReading reading;
  ASSIGN_OR_RETURN(reading.headroom_bytes, MemoryHeadroom(sources));
  reading.stalled = Stalled(sources);
  reading.major_faults = MajorFaults();
  return reading;
}

MemoryPolicy::MemoryPolicy(const MemoryPolicyOptions& options)
    : options_(options),
      step_(std::max<uint64_t>(options.full_bytes / kSteps, 1)),
      capacity_(options.full_bytes) {}

bool MemoryPolicy::IsStrained(const MemoryReading& reading,
                              absl::Duration interval) const {
  const auto reserve = static_cast<int64_t>(options_.reserve_bytes);
  if (!has_last_ || reading.headroom_bytes >= kNearReserves * reserve) {
    return false;
  }
  return reading.major_faults - last_.major_faults >= kManyFaults ||
         reading.stalled - last_.stalled > kMuchStalling * interval;
}

uint64_t MemoryPolicy::Next(const MemoryReading& reading, uint64_t used_bytes,
                            absl::Duration interval) {
  const auto reserve = static_cast<int64_t>(options_.reserve_bytes);
  if (reading.headroom_bytes < reserve) {
    // By a reserve more, so that it does not come to this again at once.
    calm_ = 0;
    Shrink(2 * reserve - reading.headroom_bytes, used_bytes);
  } else if (IsStrained(reading, interval)) {
    calm_ = 0;
    Shrink(static_cast<int64_t>(step_), used_bytes);
  } else if (++calm_ >= kCalmReadings) {
    Grow(reading.headroom_bytes, used_bytes);
  }
  last_ = reading;
  has_last_ = true;
  return capacity_;
}

// What the tier may take but has not is given up as well.
void MemoryPolicy::Shrink(int64_t by, uint64_t used_bytes) {
  const auto less = static_cast<uint64_t>(by);
  const uint64_t used = std::min(capacity_, used_bytes);
  capacity_ = std::min(
      capacity_, std::max(options_.least_bytes, used > less ? used - less : 0));
}

// What the tier may take already is counted as taken, and a second reserve
// stays, so that it does not shrink again at once.
void MemoryPolicy::Grow(int64_t headroom, uint64_t used_bytes) {
  const uint64_t unused = capacity_ - std::min(capacity_, used_bytes);
  const int64_t spare = headroom - static_cast<int64_t>(unused) -
                        2 * static_cast<int64_t>(options_.reserve_bytes);
  if (spare <= 0) return;
  const uint64_t more = std::min(step_, static_cast<uint64_t>(spare));
  capacity_ = std::min(options_.full_bytes, capacity_ + more);
}

}  // namespace deltafin
