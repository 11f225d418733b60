// common/base/expert_key.h
//
// Name of a routed expert. Layers count from 0.
#pragma once

#include <compare>
#include <cstdint>
#include <utility>

namespace deltafin {

struct ExpertKey {
  int32_t layer = 0;
  int32_t expert = 0;
  friend auto operator<=>(const ExpertKey&, const ExpertKey&) = default;

  template <typename H>
  friend H AbslHashValue(H h, const ExpertKey& key) {
    return H::combine(std::move(h), key.layer, key.expert);
  }
};

}  // namespace deltafin
