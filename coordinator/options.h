// coordinator/options.h
//
// What a coordinator is assembled with: the checked form of CoordinatorConfig.
// docs/configuration.md tells when to change each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/net/credentials.h"
#include "common/net/keepalive.h"
#include "coordinator/cluster/member_life.h"
#include "coordinator/engine/request.h"
#include "expert_node/storage/hub_environment.h"
#include "proto/config.pb.h"
#include "spine_node/options.h"

namespace deltafin {

struct CoordinatorOptions {
  // Directory in released layout, or an installed model.
  std::string model_dir;
  // How an installed model reaches the Hub for experts that it lacks.
  HubAccess hub;
  // Addresses "host:port" of the expert nodes.
  std::vector<std::string> nodes;
  // What a server of this process asks of its callers, and shows to the nodes.
  // Plaintext by default.
  Credentials credentials;
  // Nodes may join; none need be there at the start.
  bool cluster = false;
  // This process holds experts even if others do.
  bool own_experts = false;
  // Where the cluster's epoch is kept. Empty: nowhere.
  std::string state_dir;
  // Heartbeats of nodes that joined. More often: silence is noticed sooner.
  LifeLimits limits;
  // Of every expert, on different nodes.
  int copies = 1;
  // Most bytes a second that a node copies to its drive. 0: as it likes.
  uint64_t copy_bytes_per_second = 0;
  // A node may be away for so long before others copy its share.
  absl::Duration rebalance_after = absl::Minutes(5);
  // Slices that may be asked of a second node because the first is late, of
  // each that is asked for. More: fewer slow tokens, more work.
  double hedge_budget = 0;
  // Within which a node that is gone is noticed, though idle.
  absl::Duration keepalive_bound = kDefaultKeepaliveBound;
  SpinePrecision precision = SpinePrecision::kBf16;
  // "cpu", or a device of the libtorch spine: "torch-cpu", "cuda", "cuda:N",
  // "mps".
  std::string device = "cpu";
  // Kernel target by name. Empty: the fastest that this machine supports.
  std::string kernel;
  // Compute threads of the spine and of the own expert node. 0: one a core.
  int num_threads = 0;
  // Prompt tokens in one step. Larger: fewer expert reads a token; smaller:
  // less memory, sooner answers to other requests.
  int prefill_chunk = 512;
  // Expert tier of the own node. Absent: what the budget leaves, at most all
  // experts of the model.
  std::optional<uint64_t> ram_bytes;
  // Cards on which the own node computes experts; none: the processor. And
  // memory for experts on each, 0: ExpertNodeOptions tells.
  std::vector<int> expert_cards;
  uint64_t expert_card_ram_bytes = 0;
  // Most memory for the spine's weights: layers beyond it are read for every
  // step. Absent: what the budget leaves (PlanMemory).
  std::optional<uint64_t> spine_ram_bytes;
  // Most of the device's memory for the spine's weights and states: layers
  // beyond it run on the host. Absent: all run on the device.
  std::optional<uint64_t> device_ram_bytes;
  // Tokens that a sequence may reach. 0: 8,192, or the model's own bound where
  // that is less.
  int64_t context_tokens = 0;
  // Sequences that hold state at once; each costs the bytes that start-up
  // prints.
  int max_sequences = 8;
  // Requests that may wait for a place; further ones are refused.
  int max_queued = 256;
  // States retained for requests whose prompts go on from them. Absent: a share
  // of the memory (PlanMemory). 0: none.
  std::optional<uint64_t> prefix_cache_bytes;
  // Of requests that do not say.
  SpeculationMode speculation = SpeculationMode::kAuto;
  // Where things made from a model go when its folder cannot be written.
  std::string cache_dir;
  // Tell nodes what the next layer will probably want.
  bool read_ahead = true;
  // HOST:PORT of the metrics page. Empty: none.
  std::string metrics_listen;
  // Longest wait for the slowest node of a layer. A cold layer of a large
  // prompt reads gigabytes.
  absl::Duration layer_deadline = absl::Minutes(5);
  // Tests: a placement drawn from this seed instead of the default one.
  std::optional<uint64_t> placement_seed;

  // All-in-one without nodes, or as asked for.
  bool has_own_node() const {
    return own_experts || (nodes.empty() && !cluster);
  }
};

// Checks all fields at once. Errors: INVALID_ARGUMENT listing every field in
// error with its value and what is accepted.
absl::StatusOr<CoordinatorOptions> ParseCoordinatorOptions(
    const v1::CoordinatorConfig& config);

}  // namespace deltafin
