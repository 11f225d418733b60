// coordinator/engine/node_links.h
//
// Keeps a stream to every member of the cluster: follows the placement, opens
// streams again when they broke, and knows which members are fit for work now.
// Thread-compatible: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/engine/expert_client.h"

namespace deltafin {

struct NodeLinksOptions {
  // Longest way from nothing to a stream.
  absl::Duration connect_timeout = absl::Seconds(10);
  // Between two attempts on a member; doubled after each failure.
  absl::Duration first_retry = absl::Milliseconds(50);
  absl::Duration last_retry = absl::Seconds(2);
  // A member that owes an answer for longer is hung up on.
  absl::Duration stalled_for_good = absl::Seconds(20);
};

class NodeLinks {
 public:
  // `view` must outlive this.
  NodeLinks(const NodeLinksOptions& options, HandshakeIdentity identity,
            ClusterView& view);

  // Takes the view's newest placement and opens what may be opened by now.
  // Never blocks.
  void Refresh(absl::Time now);
  // Refreshes until every member that can work is connected. One that refuses
  // is an error at once; one from which nothing is heard is tried until
  // connect_timeout, as packets may have been lost. Errors: of the first member
  // that is not connected.
  absl::Status ConnectAll();

  const Placement& placement() const { return *placement_; }
  int num_slots() const { return placement_->num_slots(); }
  ExpertClients& clients() { return clients_; }
  const std::string& name(int slot) const;

  bool connected(int slot) const;
  // Counts the streams that were opened: another number, another stream.
  int64_t stream(int slot) const { return links_[slot].num_opened; }
  // Connected, and owes no answer that is overdue.
  bool is_fit(int slot) const;
  // Why it is not: its last failure. OK: none yet.
  const absl::Status& failure(int slot) const;

  // As of ExpertClients; keeps books on streams that open and close.
  NodeEvent Next(absl::Time deadline);

  // The member broke its word: hangs up. It is tried again like one whose
  // stream broke.
  void HangUp(int slot, const absl::Status& why);
  // A part of it is overdue: unfit until its next reply.
  void MarkStalled(int slot, const absl::Status& why);
  // It has answered something.
  void MarkAlive(int slot);

 private:
  struct Link {
    std::shared_ptr<grpc::Channel> channel;
    int64_t num_opened = 0;
    absl::Status failure;
    absl::Time next_attempt = absl::InfinitePast();
    absl::Duration retry;
    absl::Time stalled_since = absl::InfiniteFuture();
  };

  void Adopt(int slot);
  absl::Status Connect(int slot, absl::Time begun);
  void Fail(int slot, const absl::Status& why);

  const NodeLinksOptions options_;
  ClusterView& view_;
  std::shared_ptr<const Placement> placement_;
  std::vector<Link> links_;
  ExpertClients clients_;
};

}  // namespace deltafin
