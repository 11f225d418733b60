#include "expert_node/node_membership.h"

#include <utility>

#include "common/base/random_id.h"
#include "expert_node/machine_capacity.h"

namespace deltafin {
namespace {

v1::NodeLoad LoadOf(const ExpertNode& node) {
  const ModelSpec& spec = node.spec();
  const ExpertShape shape = spec.expert_shape();
  const uint64_t num_experts =
      static_cast<uint64_t>(spec.num_experts) * spec.num_moe_layers();
  const uint64_t expert_bytes = shape.slice_offset(shape.num_slices());
  v1::NodeLoad load;
  *load.mutable_counters() = node.counters();
  load.set_resident_experts(load.counters().resident_bytes() / expert_bytes);
  load.set_owned_slices(num_experts * shape.num_slices());
  return load;
}

v1::NodeCapacity CapacityOf(const std::string& model_dir,
                            const ExpertNode& node) {
  v1::NodeCapacity capacity = CapacityOfMachine(model_dir);
  const ReadRateReport read = node.read_rate();
  capacity.set_read_bytes_per_second(read.bytes_per_second);
  capacity.set_throttled(read.throttled);
  capacity.set_kernel_bytes_per_second(node.kernel_rate());
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
  client.join.set_incarnation(RandomNumber());
  client.join.mutable_holdings()->set_everything(true);
  client.capacity = [model_dir, &node] { return CapacityOf(model_dir, node); };
  client.load = [&node] { return LoadOf(node); };
  client.on_refused = std::move(on_refused);
  return std::make_unique<CoordinatorClient>(std::move(client), folder);
}

}  // namespace deltafin
