// expert_node/coordinator_client.h
//
// A node's membership in a cluster: joins, sends heartbeats, joins again when
// it is a member no more or the coordinator was away, leaves at the end. On a
// thread of its own; thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/net/credentials.h"
#include "expert_node/data_folder.h"
#include "proto/cluster.grpc.pb.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace deltafin {

struct CoordinatorClientOptions {
  std::string coordinator;  // HOST:PORT
  Credentials credentials;
  // Who the node is and where it is reached: identity, address, home,
  // incarnation.
  v1::JoinRequest join;
  // What it has on its machine, told when it joins and when the version is
  // another; called on the client's thread.
  std::function<uint64_t()> holdings_version;
  std::function<v1::Holdings()> holdings;
  // Asked before each message; called on the client's thread.
  std::function<v1::NodeCapacity()> capacity;
  std::function<v1::NodeLoad()> load;
  // The coordinator does not want this node, at its first try: a mistake of
  // whoever started it. Called on the client's thread, once; then the client is
  // idle. Later refusals are logged and tried again every slow_retry.
  std::function<void(const absl::Status&)> on_refused;

  absl::Duration call_timeout = absl::Seconds(5);
  // Between tries; doubled after each up to the last, and drawn at random
  // around that, so that many nodes do not come at once.
  absl::Duration first_retry = absl::Milliseconds(100);
  absl::Duration last_retry = absl::Seconds(5);
  absl::Duration slow_retry = absl::Seconds(30);
};

class CoordinatorClient {
 public:
  // Begins at once. `folder` must outlive this and is used by it alone.
  CoordinatorClient(CoordinatorClientOptions options, DataFolder& folder);
  ~CoordinatorClient();  // Stop
  // Leaves the cluster, within a second, and ends. Idempotent; by one thread.
  void Stop();
  // The next heartbeat comes now. Thread-safe.
  void Hurry();
  CoordinatorClient(const CoordinatorClient&) = delete;
  CoordinatorClient& operator=(const CoordinatorClient&) = delete;

 private:
  void Loop();
  // Each returns how long to wait before the next step.
  absl::Duration TryJoin();
  absl::Duration Beat();
  absl::Duration Refused(const absl::Status& why);
  absl::Duration Failed(const absl::Status& why);
  void Leave();

  void Connect();
  void KeepEpoch(uint64_t epoch);
  absl::Duration NextRetry();
  // False when the client ends.
  bool Pause(absl::Duration pause);
  // Makes `call` with a context that ends with the client.
  absl::Status Call(
      absl::Duration timeout,
      const std::function<absl::Status(grpc::ClientContext*)>& call);

  const CoordinatorClientOptions options_;
  DataFolder& folder_;
  std::unique_ptr<v1::ClusterService::Stub> stub_;

  // Of the thread.
  struct Progress {
    bool was_member = false;  // at any time
    bool is_member = false;
    bool is_lost = false;  // the last call failed; it was logged
    int beats = 0;         // since it joined
    absl::Duration heartbeat = absl::Seconds(1);
    absl::Duration round_trip;
    absl::Duration retry;
    std::string refusal;         // logged last
    uint64_t told_holdings = 0;  // their version
  };
  Progress progress_;

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace deltafin
