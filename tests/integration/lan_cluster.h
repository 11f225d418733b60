// tests/integration/lan_cluster.h
//
// k3-nano on a LAN in a box: a coordinator at place 0, node i at place i + 1,
// each in a network namespace of its own; they know each other by a cluster
// token. Thread-compatible.
#pragma once

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/net/credentials.h"
#include "tests/integration/deltafin_program.h"
#include "tests/testing/byte_bridge.h"
#include "tests/testing/lan_box.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {

// How the coordinator knows its nodes.
enum class LanMembers : uint8_t {
  kNamed,
  kJoining,
  kSharing,  // joining without a model: they hold their share
};

class LanCluster {
 public:
  // Waits until every node listens; sharing ones start with the first server.
  // `node_flags` are given to each. Joining nodes try until the server is up.
  static absl::StatusOr<std::unique_ptr<LanCluster>> Start(
      LanProfile profile, int num_nodes, const Words& node_flags = {},
      LanMembers members = LanMembers::kNamed);

  LanBox& box() { return *box_; }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  Process& node(int index) { return *nodes_[index]; }
  std::string address(int index) const;
  // Of the first `count` nodes, as --nodes takes them; -1: all.
  std::string addresses(int count = -1) const;

  // `deltafin WORDS --nodes ...` at the coordinator's place.
  absl::StatusOr<std::unique_ptr<Process>> StartDeltafin(const Words& words,
                                                         int num_nodes = -1);

  // `deltafin serve --cluster` at the coordinator's place, with a state folder
  // that outlives it. Waits until it listens, then starts sharing nodes that do
  // not run yet. REQUIRES: kJoining or kSharing.
  absl::StatusOr<std::unique_ptr<Process>> StartServer(
      const Words& flags = {}, const ProcessOptions& options = {});
  std::string DataFolderOf(int index) const;

  // Gives a node other flags than its own at its next start.
  void SetFlags(int index, const Words& flags) { node_flags_[index] = flags; }
  // Starts a node again that was killed.
  absl::Status Restart(int index);
  // Signals of a cable, each direction.
  absl::Status Down(int index) { return box_->Down(index + 1); }
  absl::Status Up(int index) { return box_->Up(index + 1); }
  absl::Status SetLink(int index, const LanLink& link) {
    return box_->SetLink(index + 1, link);
  }

  // Layer requests that the node has answered since it started.
  absl::StatusOr<int64_t> LayerRequests(int index);
  // Waits until there are that many. Errors: DEADLINE_EXCEEDED.
  absl::Status WaitForLayerRequests(int index, int64_t count);
  // Waits until the node has answered none for a while: the layer waits for
  // another node. Errors: DEADLINE_EXCEEDED.
  absl::Status WaitForStandstill(int index);

  // A server, over one connection from `place` that is not made again.
  struct Line {
    std::unique_ptr<ByteBridge> bridge;
    std::shared_ptr<grpc::Channel> channel;
  };
  absl::StatusOr<Line> Call(int place, const std::string& host, int port) const;
  absl::StatusOr<Line> CallServer() const;
  // What a server on a place's own loopback interface answers to GET path, with
  // its header. Errors: UNAVAILABLE.
  absl::StatusOr<std::string> Get(int place, int port,
                                  const std::string& path) const;

 private:
  absl::Status MakeToken();
  absl::Status StartNode(int index);
  absl::StatusOr<Line> CallNode(int index) const;
  // What both programs prove themselves with.
  Words token_flags() const { return {"--cluster-token-file", token_file_}; }
  int port(int index) const { return 7400 + index; }
  std::string server_address() const;

  TempDir dir_;
  std::string token_file_;
  Credentials credentials_;
  std::unique_ptr<LanBox> box_;
  LanMembers members_ = LanMembers::kNamed;
  std::vector<Words> node_flags_;
  std::vector<std::unique_ptr<Process>> nodes_;
};

}  // namespace deltafin::testing
