// tests/testing/mini_cluster.h
//
// A few deltafin-node processes on free loopback ports, for tests of whole
// programs. Thread-compatible. The nodes end with the object.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/expert.pb.h"
#include "tests/testing/process.h"

namespace deltafin::testing {

struct MiniClusterOptions {
  int num_nodes = 1;
  std::string model_dir = "";           // empty: k3-nano
  std::vector<std::string> flags = {};  // given to every node
  // Given to node i besides; shorter than num_nodes: the rest get none.
  std::vector<std::vector<std::string>> flags_of_node = {};
};

class MiniCluster {
 public:
  // Starts the nodes and waits until each says where it listens. Errors: what
  // the node printed instead.
  static absl::StatusOr<std::unique_ptr<MiniCluster>> Start(
      const MiniClusterOptions& options);

  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  Process& node(int index) { return *nodes_[index].process; }
  const std::string& address(int index) const { return nodes_[index].address; }
  // All addresses, as --nodes takes them.
  std::string addresses() const;

  // Counters since the node started, asked over gRPC within five seconds.
  absl::StatusOr<v1::NodeCounters> Counters(int index) const;
  absl::StatusOr<std::vector<v1::NodeCounters>> AllCounters() const;

  void Kill(int index);    // SIGKILL
  void Pause(int index);   // SIGSTOP
  void Resume(int index);  // SIGCONT

 private:
  struct Node {
    std::unique_ptr<Process> process;
    std::string address;
  };
  std::vector<Node> nodes_;
};

// Waits for the line "... listening on HOST:PORT" of a process and returns
// HOST:PORT.
absl::StatusOr<std::string> WaitForAddress(Process& process);

}  // namespace deltafin::testing
