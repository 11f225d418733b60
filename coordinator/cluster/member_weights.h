// coordinator/cluster/member_weights.h
//
// How much of every expert a machine should have, from what it is able to do.
// Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace deltafin {

// What is known of a machine's speed, in bytes of experts a second. 0: not
// measured.
struct MemberSpeed {
  double read = 0;    // from its disk, sustained
  double kernel = 0;  // through its kernel
};

// Measuring again gives other numbers, and each change moves slices: a rate
// that is less than a tenth from the one in use changes nothing.
MemberSpeed SpeedInUse(const MemberSpeed& in_use, const MemberSpeed& measured);

struct MemberWeight {
  double weight = 0;
  std::string remark;  // why it is 0
};

// In bytes a second. Reading and computing overlap, so that the slower of the
// two counts. A rate that is not measured is taken as the mean of that rate
// where it is; one that nobody has limits nobody; without any all weights are
// 1.
//
// Rates of equal machines are never quite equal: those up to kAlike times the
// slowest of them count as equal, as their mean, beginning with the slowest
// machine of all.
//
// A machine gets weight 0 when a layer would take longer with it than without.
// A layer has `slices_per_layer` slices for a token; shares are in proportion
// to speed but for whole slices, so that the slowest machine may have one more
// than its share: the layer takes slices / sum of speeds + 1 / least speed.
// REQUIRES: slices_per_layer >= 1.
inline constexpr double kAlike = 1.15;
std::vector<MemberWeight> WeighMembers(std::span<const MemberSpeed> speeds,
                                       int slices_per_layer);

}  // namespace deltafin
