#include "expert_node/node_membership.h"

#include <utility>

#include "expert_node/holdings.h"
#include "expert_node/machine_capacity.h"

namespace deltafin {
namespace {

v1::NodeLoad LoadOf(const ExpertNode& node) {
  const ModelSpec& spec = node.spec();
  const ExpertShape shape = spec.expert_shape();
  const uint64_t expert_bytes = shape.slice_offset(shape.num_slices());
  v1::NodeLoad load;
  *load.mutable_counters() = node.counters();
  load.set_resident_experts(load.counters().resident_bytes() / expert_bytes);
  load.set_owned_slices(CountHeldSlices(spec, node.experts()));
  return load;
}

// A node with the model at hand has everything: what its folder lacks comes
// from where that was installed.
v1::Holdings ToldHoldings(const ExpertNode& node) {
  if (node.share() != nullptr) return HoldingsOf(node.spec(), *node.share());
  v1::Holdings holdings;
  holdings.set_everything(true);
  return holdings;
}

v1::NodeCapacity CapacityOf(const std::string& model_dir,
                            const ExpertNode& node) {
  v1::NodeCapacity capacity = CapacityOfMachine(model_dir);
  const ReadRateReport read = node.read_rate();
  capacity.set_read_bytes_per_second(read.bytes_per_second);
  capacity.set_throttled(read.throttled);
  capacity.set_kernel_bytes_per_second(node.kernel_rate());
  if (node.share() != nullptr) {
    capacity.set_disk_free_bytes(node.share()->records().stats().room_bytes);
  }
  return capacity;
}

}  // namespace

std::unique_ptr<CoordinatorClient> JoinCluster(
    const NodeJoinOptions& options, const std::string& model_dir,
    const ExpertNode& node, DataFolder& folder,
    std::function<void(const absl::Status&)> on_refused) {
  CoordinatorClientOptions client;
  client.coordinator = options.coordinator;
  client.credentials = options.credentials;
  *client.join.mutable_identity() = node.identity();
  client.join.set_address(options.advertise.empty() ? node.address()
                                                    : options.advertise);
  client.join.set_home(folder.home());
  client.join.set_incarnation(options.incarnation);
  client.holdings_version = [&node] {
    return node.share() == nullptr ? 0 : node.share()->held_version();
  };
  client.holdings = [&node] { return ToldHoldings(node); };
  client.capacity = [model_dir, &node] { return CapacityOf(model_dir, node); };
  client.load = [&node] { return LoadOf(node); };
  client.on_refused = std::move(on_refused);
  return std::make_unique<CoordinatorClient>(std::move(client), folder);
}

}  // namespace deltafin
