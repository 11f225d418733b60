// coordinator/own_node.h
//
// An expert node in the coordinator's process, reached through gRPC without a
// socket. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "expert_node/storage/hub_environment.h"
#include "kernels/kernel_registry.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace deltafin {

class ExpertNode;
class ExpertStore;
class StoredExperts;

// What the node in this process is made with.
struct OwnNodeOptions {
  std::string model_dir;
  std::string manifest_digest;
  HubAccess hub;            // for experts that an installed model lacks
  uint64_t tier_bytes = 0;  // experts kept in RAM
  int num_threads = 1;
  const KernelTarget* kernel = nullptr;
  std::vector<int> cards;       // that compute; none: the processor
  uint64_t card_ram_bytes = 0;  // as ExpertNodeOptions
};

class OwnNode {
 public:
  // Errors: those of ExpertNode.
  static absl::StatusOr<std::unique_ptr<OwnNode>> Start(
      const OwnNodeOptions& options);
  // Lets running requests end.
  ~OwnNode();

  std::shared_ptr<grpc::Channel> channel() const;
  // Its experts that are on this machine.
  ExpertStore& held();
  // What it keeps on the drive; null where that is nothing.
  StoredExperts* stored_experts() const;

 private:
  OwnNode();

  std::unique_ptr<ExpertNode> node_;
};

}  // namespace deltafin
