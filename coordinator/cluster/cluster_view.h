// coordinator/cluster/cluster_view.h
//
// The cluster as the engine sees it: a placement that may change between steps,
// and a place to tell what the streams to the nodes taught. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/cluster/placement.h"
#include "proto/expert.pb.h"

namespace deltafin {

// What one reply of a node told of its speed.
struct PartTiming {
  absl::Duration elapsed;  // sent to received
  absl::Duration queue;    // these three as the node reports
  absl::Duration read;
  absl::Duration compute;
  int64_t slices = 0;  // (token, expert, slice) triples
  int64_t bytes_read = 0;
};

class ClusterView {
 public:
  virtual ~ClusterView() = default;

  // The newest. Never null.
  virtual std::shared_ptr<const Placement> placement() const = 0;

  // The engine's stream to a member was opened; what the member said of itself.
  virtual void StreamOpened(int slot, const v1::HandshakeReply& identity) = 0;
  // The stream ended or could not be opened, or the member broke its word (a
  // bad reply, a part not answered in time).
  virtual void MemberFailed(int slot, const absl::Status& why) = 0;
  virtual void PartAnswered(int slot, const PartTiming& timing) = 0;

  // The least that a message to the member and back took of late, work of its
  // own excepted; zero: nothing tells.
  virtual absl::Duration RoundTrip(int /*slot*/) const {
    return absl::ZeroDuration();
  }
};

}  // namespace deltafin
