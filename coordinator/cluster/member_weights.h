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

struct MemberWeight {
  double weight = 0;
  std::string remark;  // why it is 0
};

// In bytes a second: reading and computing overlap, so that the slower of the
// two counts, or the one that is measured. Machines that are not measured count
// as the mean of those that are, or all 1.
//
// A machine gets weight 0 when a layer would take longer with it than without.
// A layer has `slices_per_layer` slices for a token; shares are in proportion
// to speed but for whole slices, so that the slowest machine may have one more
// than its share: the layer takes slices / sum of speeds + 1 / least speed.
// REQUIRES: slices_per_layer >= 1.
std::vector<MemberWeight> WeighMembers(std::span<const MemberSpeed> speeds,
                                       int slices_per_layer);

}  // namespace deltafin
