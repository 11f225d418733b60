// coordinator/membership.h
//
// The expert nodes of a coordinator: registry, the node in this process, the
// thread that notices silence. Thread-compatible but for the registry.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/net/credentials.h"
#include "common/net/keepalive.h"
#include "coordinator/cluster/node_registry.h"
#include "coordinator/cluster/registry_ticker.h"
#include "coordinator/own_node.h"

namespace deltafin {

struct MembershipOptions {
  RegistryOptions registry;
  std::string state_dir;           // empty: neither epoch nor drains are kept
  std::vector<std::string> nodes;  // named by the user
  Credentials credentials;         // to nodes, named or not
  absl::Duration keepalive_bound = kDefaultKeepaliveBound;  // of them
  std::optional<OwnNodeOptions> own_node;
};

class Membership {
 public:
  // Starts the own node; connects to no other. Errors: those of OwnNode and
  // EpochFile.
  static absl::StatusOr<std::unique_ptr<Membership>> Create(
      const MembershipOptions& options);

  NodeRegistry& registry() { return *registry_; }
  RegistryTicker& ticker() { return *ticker_; }
  OwnNode* own_node() { return own_node_.get(); }  // null: none
  // Of the node in this process; null where nothing is kept.
  StoredExperts* stored_experts() const {
    return own_node_ == nullptr ? nullptr : own_node_->stored_experts();
  }

 private:
  Membership() = default;

  std::unique_ptr<OwnNode> own_node_;  // null: all experts are elsewhere
  std::unique_ptr<NodeRegistry> registry_;
  std::unique_ptr<RegistryTicker> ticker_;
};

}  // namespace deltafin
