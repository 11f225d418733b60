// expert_node/storage/expert_heat.h
//
// How often each expert was used of late: uses counted, each worth half after a
// while. Thread-compatible.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "common/base/expert_key.h"

namespace deltafin {

class ExpertHeat {
 public:
  // half_life: in requests; > 0.
  explicit ExpertHeat(double half_life) : half_life_(half_life) {}

  // Time goes on by one request.
  void BeginRequest() { ++requests_; }
  void Use(ExpertKey expert);

  // Of two experts the one used more has more, at any time: the scale moves
  // with time, so that what rests keeps its number. 0: never used.
  double Of(ExpertKey expert) const;

 private:
  const double half_life_;
  uint64_t requests_ = 0;
  // log2 of the sum of 2^(request of the use / half_life).
  absl::flat_hash_map<ExpertKey, double> heat_;
};

}  // namespace deltafin
