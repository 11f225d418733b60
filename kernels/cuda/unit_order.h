// kernels/cuda/unit_order.h
//
// The order in which the blocks of a card take the units of a layer. A job is
// one slice of one expert for up to four tokens: `up_units` units of gate and
// up rows, then `down_units` units of down rows that wait for them. Private to
// kernels/cuda/.
#pragma once

#include "kernels/cuda/host_device.h"

namespace deltafin::cuda {

struct Unit {
  int job;
  int part;
  bool down;
};

// Units of gate and up run `lead` jobs ahead of those of down, so that nobody
// waits but at the end, and a unit never waits for one that comes later.
struct UnitOrder {
  int num_jobs;
  int up_units;    // of a job
  int down_units;  // of a job
  int lead;

  DELTAFIN_HOST_DEVICE int size() const {
    return num_jobs * (up_units + down_units);
  }

  // REQUIRES: 0 <= position < size().
  DELTAFIN_HOST_DEVICE Unit At(int position) const {
    const int ahead = lead < num_jobs ? lead : num_jobs;
    const int first = ahead * up_units;
    if (position < first) {
      return {position / up_units, position % up_units, false};
    }
    position -= first;
    const int pair = up_units + down_units;
    const int paired = num_jobs - ahead;
    const int job = position / pair;
    if (job < paired) {
      const int part = position % pair;
      if (part < up_units) return {ahead + job, part, false};
      return {job, part - up_units, true};
    }
    position -= paired * pair;
    return {paired + position / down_units, position % down_units, true};
  }
};

}  // namespace deltafin::cuda
