// coordinator/cli/spread.h
//
// Median and range of a few measurements. Pure.
#pragma once

#include <vector>

namespace deltafin {

struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

// All zero for no values.
Spread SpreadOf(std::vector<double> values);

}  // namespace deltafin
