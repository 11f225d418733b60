// coordinator/cluster/drain.h
//
// Taking a node out of a cluster: whom the user means, what only that node has,
// and when it may be switched off. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/cluster/cluster_health.h"
#include "coordinator/cluster/placement.h"

namespace deltafin {

// How a user may call a node.
struct NodeName {
  int slot = -1;  // -1: not a member now
  std::string id;
  std::string address;
};

// The node with this id or address, or else the only one whose id begins so; a
// position in `nodes`. Errors: NOT_FOUND and INVALID_ARGUMENT (ambiguous), with
// the candidates.
absl::StatusOr<int> FindNode(std::span<const NodeName> nodes,
                             std::string_view wanted);

// (expert, slice) pairs that the member in `slot` has and no serving one does.
int64_t SlicesOnlyOn(int slot, const Placement& placement,
                     const ModelExtent& extent);

struct DrainFacts {
  std::string name;
  bool is_there = true;     // may be asked for work: neither gone nor away
  bool is_draining = true;  // nobody took it back meanwhile
  int64_t slices_only_here = 0;
  int64_t alone_at_start = 0;  // such slices when the drain began
  bool others_copy = true;     // a member is there that copies them
  // Since the drain began and since its last answer, whichever is shorter.
  absl::Duration quiet;
  absl::Duration heartbeat;    // between two
  bool was_heard = true;       // told its load since; without heartbeats: true
  uint64_t requests_here = 0;  // waiting or running, as it last told
};

struct DrainStep {
  bool done = false;
  std::string sentence;     // what happens, or that it may be switched off
  bool is_copying = false;  // the sentence counts slices
};

// Done when nothing is on the node alone and it has had no work for two
// heartbeats; a node that is not there is done. Errors: ABORTED when it was
// taken back into service.
absl::StatusOr<DrainStep> JudgeDrain(const DrainFacts& facts);

// FAILED_PRECONDITION with what to do.
absl::Status RefuseDrain(std::string_view name, int64_t slices_only_here);

}  // namespace deltafin
