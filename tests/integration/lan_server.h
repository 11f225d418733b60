// tests/integration/lan_server.h
//
// `deltafin serve --cluster` at the coordinator's place of a LAN in a box, and
// a client of it. Thread-compatible.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/admin.grpc.pb.h"
#include "tests/integration/lan_cluster.h"

namespace deltafin::testing {

class LanServer {
 public:
  // Waits until it listens. `cluster` must outlive it.
  static absl::StatusOr<std::unique_ptr<LanServer>> Start(
      LanCluster& cluster, const Words& flags = {},
      const ProcessOptions& options = {});

  Process& process() { return *process_; }

  // These fail the calling test where the call fails.
  v1::ClusterHealth Health();
  v1::PlacementReport Placement();
  // Asks for the health until all nodes of the cluster serve and nobody else
  // is listed.
  v1::ClusterHealth WaitForAll();

  // ShortLanPrompt, answered by exactly so many tokens. Calls `at_token` with
  // the number of tokens that have come.
  grpc::Status Generate(int num_tokens, nlohmann::json* ids,
                        const std::function<void(int)>& at_token = nullptr);
  // The same, and expects what one undisturbed process gives.
  void ExpectUndisturbed(int num_tokens,
                         const std::function<void(int)>& at_token = nullptr);

  // Changes the placement at once; does not wait for the drain's end.
  void BeginDrain(const std::string& node, bool undo);
  // Waits until the node may be switched off.
  void Drain(const std::string& node);

 private:
  LanServer() = default;

  LanCluster* cluster_ = nullptr;
  std::unique_ptr<Process> process_;
  LanCluster::Line line_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
};

}  // namespace deltafin::testing
