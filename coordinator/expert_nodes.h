// coordinator/expert_nodes.h
//
// The expert nodes of a coordinator: those of the static list, or one in this
// process that is reached through gRPC without a socket. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cluster/placement.h"
#include "coordinator/run_statistics.h"
#include "kernels/kernel_registry.h"

namespace deltafin {

class ExpertNode;

// What the node in this process is made with.
struct OwnNodeOptions {
  std::string model_dir;
  std::string manifest_digest;
  uint64_t tier_bytes = 0;  // experts kept in RAM
  int num_threads = 1;
  const KernelTarget* kernel = nullptr;
};

class ExpertNodes {
 public:
  // Nodes of other processes; connects nothing yet.
  static std::unique_ptr<ExpertNodes> Remote(
      const std::vector<std::string>& addresses);
  // Starts a node in this process. Errors: those of ExpertNode.
  static absl::StatusOr<std::unique_ptr<ExpertNodes>> InProcess(
      const OwnNodeOptions& options);
  ~ExpertNodes();  // ends the own node

  // With name and channel.
  const std::vector<Member>& members() const { return members_; }

  // Notes the counters as they are: Counters tells what came since. Errors:
  // UNAVAILABLE naming a node that does not answer within five seconds.
  absl::Status StartCounting();
  // One report a node, with its counters; one that does not answer within five
  // seconds is marked as not reachable.
  std::vector<NodeReport> Counters() const;

 private:
  ExpertNodes();
  std::unique_ptr<ExpertNode> own_node_;
  std::vector<Member> members_;
  std::vector<NodeReport> before_;
};

}  // namespace deltafin
