// coordinator/engine/layer_times.h
//
// Which node took how long for its part of which layer, in the step under way
// and in the one before where the step has not come so far. Thread-safe: the
// engine thread notes, anybody looks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/cluster/cluster_health.h"
#include "coordinator/engine/node_work.h"

namespace deltafin {

struct LayerTimesSnapshot {
  struct Node {
    std::string name;
    // By layer of the extent, milliseconds from the layer's begin to the node's
    // last answer; 0: it had no part; kGivenUp.
    std::vector<float> milliseconds;
  };
  // Work of the node was given to others.
  static constexpr float kGivenUp = -1;

  uint64_t step = 0;  // 0: none yet
  int layer = 0;      // begun last, as the model counts
  std::vector<Node> nodes;
};

class LayerTimes {
 public:
  // An extent without layers: nothing is noted.
  explicit LayerTimes(const ModelExtent& extent) : extent_(extent) {}

  void Begin(uint64_t step, int layer);
  // What the node of a slot did for the layer begun last.
  void Add(int slot, std::string_view name, const NodeWork& work);

  LayerTimesSnapshot Snapshot() const;

 private:
  struct Cell {
    float milliseconds = 0;
    uint64_t step = 0;
  };
  struct Row {
    std::string name;
    std::vector<Cell> cells;  // by layer of the extent
  };

  const ModelExtent extent_;
  mutable Mutex mutex_;
  uint64_t step_ ABSL_GUARDED_BY(mutex_) = 0;
  int layer_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Row> rows_ ABSL_GUARDED_BY(mutex_);  // by slot
};

}  // namespace deltafin
