#include "coordinator/engine/layer_times.h"

namespace deltafin {
namespace {

float MillisecondsOf(const NodeWork& work) {
  if (work.given_up_after > absl::ZeroDuration()) {
    return LayerTimesSnapshot::kGivenUp;
  }
  return static_cast<float>(absl::ToDoubleMilliseconds(work.answered_after));
}

}  // namespace

void LayerTimes::Begin(uint64_t step, int layer) {
  MutexLock lock(mutex_);
  step_ = step;
  layer_ = layer;
}

void LayerTimes::Add(int slot, std::string_view name, const NodeWork& work) {
  const float milliseconds = MillisecondsOf(work);
  if (milliseconds == 0) return;
  MutexLock lock(mutex_);
  const int column = layer_ - extent_.first_layer;
  if (column < 0 || column >= extent_.num_layers) return;
  if (rows_.size() <= static_cast<size_t>(slot)) rows_.resize(slot + 1);
  Row& row = rows_[slot];
  if (row.name != name) {
    row.name = name;
    row.cells.assign(extent_.num_layers, Cell());
  }
  row.cells[column] = {milliseconds, step_};
}

LayerTimesSnapshot LayerTimes::Snapshot() const {
  MutexLock lock(mutex_);
  LayerTimesSnapshot snapshot;
  snapshot.step = step_;
  snapshot.layer = layer_;
  for (const Row& row : rows_) {
    if (row.name.empty()) continue;
    LayerTimesSnapshot::Node& node = snapshot.nodes.emplace_back();
    node.name = row.name;
    for (int column = 0; column < extent_.num_layers; ++column) {
      const Cell& cell = row.cells[column];
      const bool is_reached = column + extent_.first_layer <= layer_;
      const bool is_recent =
          cell.step == step_ || (!is_reached && cell.step + 1 == step_);
      node.milliseconds.push_back(is_recent ? cell.milliseconds : 0);
    }
  }
  return snapshot;
}

}  // namespace deltafin
