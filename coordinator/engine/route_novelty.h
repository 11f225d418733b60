// coordinator/engine/route_novelty.h
//
// How many other experts a token wants than the token before it: what a further
// row of a step adds to the experts that must be read and computed.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <vector>

#include "spine_node/spine_types.h"

namespace deltafin {

class RouteNovelty {
 public:
  // Of one layer of a step. Steps of several tokens are not looked at: their
  // rows may be of several sequences.
  void Add(int layer, const RoutedTokens& routed);

  // Part of a token's experts that the one before did not want, 0 to 1, by the
  // last few hundred layers. 1 before anything is known.
  double fresh() const { return fresh_; }

 private:
  std::vector<std::vector<int32_t>> last_;  // per layer: experts, ascending
  double fresh_ = 1;
  bool is_known_ = false;
};

}  // namespace deltafin
