// coordinator/cluster/cluster_events.h
//
// What happened to the members of a cluster lately, oldest first, for people
// who look on. Bounded. Thread-compatible.
#pragma once

#include <algorithm>
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
  // How often it made this change, if again and again; all else is of the last.
  uint64_t times = 1;
  absl::Time since;  // the first of them
};

class ClusterEvents {
 public:
  static constexpr size_t kMaxEvents = 100;
  // A node that makes the same change again within this time has one event of
  // it: what comes and goes without end pushes nobody else out.
  static constexpr absl::Duration kFlapWindow = absl::Minutes(5);

  // Numbers the event. Forgets the oldest above kMaxEvents.
  void Add(ClusterEvent event) {
    event.number = ++last_number_;
    event.times = 1;
    event.since = event.time;
    const auto before = std::find_if(
        events_.begin(), events_.end(), [&event](const ClusterEvent& other) {
          return IsSameChange(other, event) &&
                 event.time - other.time <= kFlapWindow;
        });
    if (before != events_.end()) {
      event.times = before->times + 1;
      event.since = before->since;
      events_.erase(before);
    }
    events_.push_back(std::move(event));
    if (events_.size() > kMaxEvents) events_.pop_front();
  }
  const std::deque<ClusterEvent>& events() const { return events_; }

 private:
  // By address: a node that starts anew may have another id each time.
  static bool IsSameChange(const ClusterEvent& a, const ClusterEvent& b) {
    return a.node == b.node && a.from == b.from && a.to == b.to;
  }

  std::deque<ClusterEvent> events_;
  uint64_t last_number_ = 0;
};

}  // namespace deltafin
