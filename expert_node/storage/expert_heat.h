// expert_node/storage/expert_heat.h
//
// How often each expert was used of late: uses counted, each worth half after a
// while. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/expert_key.h"

namespace deltafin {

// An expert's heat as it is kept between two runs of a program.
struct ExpertUse {
  ExpertKey expert;
  double heat = 0;      // ExpertHeat::Of
  uint64_t slices = 0;  // used of late; bit s: slice s, of the first 64
  friend bool operator==(const ExpertUse&, const ExpertUse&) = default;
};

// Heats mean something against the time of their scale alone.
struct HeatPage {
  double now = 0;  // 0: there is none
  std::vector<ExpertUse> uses;
};

class ExpertHeat {
 public:
  // half_life: in requests; > 0.
  explicit ExpertHeat(double half_life) : half_life_(half_life) {}

  // Time goes on by one request.
  void BeginRequest() { ++requests_; }
  void Use(ExpertKey expert, uint64_t slices = 0);

  // Of two experts the one used more has more, at any time: the scale moves
  // with time, so that what rests keeps its number. 0: never used.
  double Of(ExpertKey expert) const;

  // What was used since the last call, with the slices used since then.
  HeatPage TakeUses();
  // Goes on from where another run ended. REQUIRES: nothing was used yet.
  void Restore(const HeatPage& page);

 private:
  struct Trace {
    // log2 of the sum of 2^(time of the use).
    double heat = 0;
    uint64_t slices = 0;  // since TakeUses
    bool is_new = false;  // used since TakeUses
  };
  // In half lives. One at the beginning, so that a use is never 0.
  double Now() const {
    return origin_ + static_cast<double>(requests_) / half_life_;
  }

  const double half_life_;
  double origin_ = 1;
  uint64_t requests_ = 0;
  absl::flat_hash_map<ExpertKey, Trace> traces_;
};

}  // namespace deltafin
