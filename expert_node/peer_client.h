// expert_node/peer_client.h
//
// A node's way to the slices of others: asks the coordinator who has them and
// what to copy, and the owners for the bytes. Thread-safe; calls block on the
// network, each with a bound.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/net/credentials.h"
#include "common/net/keepalive.h"
#include "expert_node/storage/peer_store.h"
#include "kernels/expert_weights.h"
#include "proto/cluster.grpc.pb.h"
#include "proto/expert.grpc.pb.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace deltafin {

// How a coordinator names its own folder among owners.
inline constexpr char kCoordinatorOwner[] = "coordinator";

struct PeerClientOptions {
  std::string coordinator;  // HOST:PORT
  Credentials credentials;  // to it and to the owners
  // Who asks.
  std::string node_id;
  uint64_t incarnation = 0;
  // What is asked for.
  std::string manifest_digest;
  ExpertShape shape;

  // Within which a machine that is gone is noticed.
  absl::Duration keepalive_bound = kDefaultKeepaliveBound;
  absl::Duration ask_timeout = absl::Seconds(5);
  // Of one run from one owner; a copy may also wait while the owner gives
  // others theirs.
  absl::Duration read_timeout = absl::Seconds(30);
};

class PeerClient : public SlicePeers {
 public:
  explicit PeerClient(PeerClientOptions options);
  ~PeerClient() override;

  absl::StatusOr<std::vector<OwnedRun>> FindOwners(ExpertKey key,
                                                   SliceRun run) override;
  // `owner`: HOST:PORT, or kCoordinatorOwner. Errors: also INVALID_ARGUMENT for
  // an address that this node may not reach without credentials.
  absl::Status ReadSlices(const std::string& owner, ExpertKey key, SliceRun run,
                          std::optional<uint64_t> copy_budget,
                          TakeSlice take) override;

  absl::StatusOr<v1::NextCopiesReply> NextCopies(uint32_t max_orders,
                                                 bool has_source);

  // Ends all calls, now and later, with CANCELLED.
  void Cancel();

 private:
  class Call;

  absl::Duration TimeoutOf(SliceRun run,
                           std::optional<uint64_t> copy_budget) const;
  absl::StatusOr<std::shared_ptr<v1::ExpertService::Stub>> StubOf(
      const std::string& owner);

  const PeerClientOptions options_;
  const std::unique_ptr<v1::ClusterService::Stub> coordinator_;
  Mutex mutex_;
  // Connections to owners, by name.
  std::map<std::string, std::shared_ptr<v1::ExpertService::Stub>> owners_
      ABSL_GUARDED_BY(mutex_);
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace deltafin
