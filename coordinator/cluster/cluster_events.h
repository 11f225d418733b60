// coordinator/cluster/cluster_events.h
//
// What happened to the members of a cluster lately, oldest first, for people
// who look on. Bounded. Thread-compatible.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace deltafin {

// A member changed its state.
struct ClusterEvent {
  uint64_t number = 0;  // ascending, the first is 1
  absl::Time time;
  std::string node;  // its address
  std::string node_id;
  std::string from;  // states as in v1::NodeHealth; "gone" before it came
  std::string to;    // also "left": gone of its own will
  std::string why;   // empty where the state says it all
};

class ClusterEvents {
 public:
  static constexpr size_t kMaxEvents = 100;

  // Numbers the event. Forgets the oldest above kMaxEvents.
  void Add(ClusterEvent event) {
    event.number = ++last_number_;
    events_.push_back(std::move(event));
    if (events_.size() > kMaxEvents) events_.pop_front();
  }
  const std::deque<ClusterEvent>& events() const { return events_; }

 private:
  std::deque<ClusterEvent> events_;
  uint64_t last_number_ = 0;
};

}  // namespace deltafin
