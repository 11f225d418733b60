#include "coordinator/engine/expected_experts.h"

#include <algorithm>

namespace deltafin {

void ExpectedExperts::Grow(int num_nodes) {
  gates_.resize(num_nodes);
  messages_.resize(num_nodes);
}

void ExpectedExperts::Plan(const Placement& placement, int layer,
                           std::span<const int32_t> experts) {
  DropAll();
  experts_.assign(experts.begin(), experts.end());
  std::sort(experts_.begin(), experts_.end());
  experts_.erase(std::unique(experts_.begin(), experts_.end()), experts_.end());
  for (const int32_t expert : experts_) {
    placement.Cut({layer, expert}, 0, &runs_);
    for (const NodeRun& home : runs_) {
      v1::ExpectExperts& expect = *messages_[home.node].mutable_expect();
      expect.set_layer(layer);
      expect.add_expert(expert);
      expect.add_first_slice(home.slices.first);
      expect.add_num_slices(home.slices.count);
    }
  }
}

void ExpectedExperts::Drop(int node) {
  messages_[node].mutable_expect()->Clear();
}

void ExpectedExperts::DropAll() {
  for (v1::NodeRequest& message : messages_) message.mutable_expect()->Clear();
}

const v1::NodeRequest* ExpectedExperts::message(int node) const {
  const v1::NodeRequest& message = messages_[node];
  return message.expect().expert_size() > 0 ? &message : nullptr;
}

}  // namespace deltafin
