// expert_node/options.h
//
// What an expert node is made from. docs/configuration.md tells when to change
// a default.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/net/credentials.h"
#include "common/net/keepalive.h"
#include "expert_node/device/expert_card.h"
#include "expert_node/request_queue.h"
#include "expert_node/storage/hub_environment.h"
#include "expert_node/storage/peer_store.h"
#include "expert_node/storage/record_store.h"
#include "kernels/kernel_registry.h"
#include "proto/config.pb.h"

namespace deltafin {

// A node that holds only its share of the model, in its data folder.
struct ShareOptions {
  std::string experts_folder;
  // Bytes of experts that it may hold.
  uint64_t quota_bytes = RecordStoreOptions::kNoQuota;
  // Bytes of the drive that are left to others.
  uint64_t reserve_bytes = uint64_t{1} << 30;
  // Where the node fetches released experts itself, when nobody in the cluster
  // has them. Empty: nowhere.
  std::optional<ModelRevision> repository;
  // The rest of the cluster; must outlive the node. Set by the assembly.
  SlicePeers* peers = nullptr;
};

struct ExpertNodeOptions {
  // Directory of released shards, or an installed model; with a share the
  // folder with the model's small files. Required.
  std::string model_dir;
  // Set: experts lie there, not in model_dir.
  std::optional<ShareOptions> share;
  // How an installed model reaches the Hub for experts that it lacks.
  HubAccess hub;
  // SHA-256 hex of the model's manifest, where the caller knows it. Empty:
  // hashed by Create, which reads every shard once.
  std::string manifest_digest;
  // Where Create keeps file digests between starts. Empty: nowhere.
  std::string digest_cache;
  // Where a node over released shards keeps its ledger (an installed model has
  // its own place for it). The caller has a lock on it. Empty: nowhere.
  std::string data_dir;
  // Tells of that hashing; may be empty.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;

  // Who the node is to coordinators. Empty: host name and process id.
  std::string node_id;

  // HOST:PORT, port 0 for any free one; without credentials on the loopback
  // interface. Empty: reached through the in-process channel alone.
  std::string listen;
  // What callers must match. Plaintext by default.
  Credentials credentials;

  // Within which a coordinator that is gone is noticed.
  absl::Duration keepalive_bound = kDefaultKeepaliveBound;

  // Memory for experts; at least one whole expert. 0: what the experts of the
  // model need, at most half of what is available. More memory means fewer
  // reads; a layer from memory is some 17 times faster than from disk.
  uint64_t ram_bytes = 0;
  // Threads that compute. 0: one for each CPU this process may use.
  int num_threads = 0;
  // Bytes a second that the disk sustained when it was measured. 0: never
  // measured; then nobody can tell that it throttles.
  double sustained_read = 0;
  // Threads that read experts, check and repack them: see TieredStoreOptions.
  int num_readers = 6;
  // The instruction set to use; it changes no bit. nullptr: the fastest here.
  const KernelTarget* kernel = nullptr;
  // Cards that compute, by number, with the same bits; none: the processor. One
  // that cannot be used is told in the log and left out.
  std::vector<int> cards;
  // Memory for experts on each card. 0: what is free less a gibibyte, at most
  // all experts. Less: room for other programs that use the card.
  uint64_t card_ram_bytes = 0;
  // Tests: cards that are none. Empty: NVIDIA's.
  CardOpener open_card;

  // Most tokens in one request. Coordinators send at most 128.
  int max_request_tokens = 256;
  // What one stream may have waiting before the node stops reading it, and what
  // of it runs together.
  RequestQueueLimits queue_limits;
  // Tests: how long to hold each reply back. Thread-safe, may be empty.
  std::function<absl::Duration()> reply_delay;
  // Tests: what a part that was computed ends with. Thread-safe, may be empty.
  std::function<absl::Status()> reply_error;
  // Tests: bytes of experts a second that the kernel is said to take; 0: it is
  // measured.
  double kernel_rate = 0;
};

// A node's part in a cluster that it joins by itself.
struct NodeJoinOptions {
  std::string coordinator;  // HOST:PORT. Empty: waits to be called
  // Keeps the node's id. Required with a coordinator.
  std::string data_dir;
  // HOST:PORT where the coordinator reaches this node. Empty: where it listens.
  std::string advertise;
  Credentials credentials;   // to the coordinator and other nodes
  uint64_t incarnation = 0;  // of this process
};

// The options that a configuration (file and flags merged) describes. Checks
// all fields at once. Errors: INVALID_ARGUMENT, a line for each bad field with
// its value and what is accepted. Credentials are not read from their files.
absl::StatusOr<ExpertNodeOptions> OptionsFromConfig(
    const v1::NodeConfig& config);
// The same for its part in a cluster.
absl::StatusOr<NodeJoinOptions> JoinOptionsFromConfig(
    const v1::NodeConfig& config);

}  // namespace deltafin
