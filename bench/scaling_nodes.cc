#include "bench/scaling_nodes.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "bench/repeated_store.h"
#include "common/base/check.h"
#include "coordinator/engine/expert_client.h"
#include "expert_node/expert_node.h"
#include "expert_node/storage/throttled_store.h"

namespace deltafin::bench {
RouteModel Routes() {
  const ModelSpec spec = FullExperts();
  const ExpertShape shape = spec.expert_shape();
  return {spec.first_k_dense_replace, spec.num_moe_layers(), spec.num_experts,
          spec.num_experts_per_token,
          static_cast<int64_t>(shape.slice_offset(1))};
}

std::unique_ptr<Child> ScalingNode(int num_threads, double read_rate) {
  return std::make_unique<Child>([=](const std::function<void(int)>& tell) {
    const ModelSpec spec = FullExperts();
    ExpertNodeOptions node_options;
    node_options.manifest_digest = kScalingDigest;
    node_options.listen = "127.0.0.1:0";
    node_options.num_threads = num_threads;
    // Room for what is being read ahead, none to keep.
    node_options.ram_bytes = 4 * spec.expert_shape().payload_bytes();
    auto node = ExpertNode::CreateOver(
        node_options, spec,
        std::make_unique<ThrottledStore>(std::make_unique<RepeatedStore>(),
                                         read_rate));
    CHECK_OK(node.status());
    CHECK_OK((*node)->Start());
    tell((*node)->bound_port());
    pause();
  });
}

std::vector<Member> ScalingMembers(
    const std::vector<std::unique_ptr<Child>>& nodes,
    const std::vector<double>& weights, const PlacementOptions& placement) {
  const int count = static_cast<int>(weights.size());
  std::vector<Member> members(count);
  for (int i = 0; i < count; ++i) {
    members[i].name = "127.0.0.1:" + std::to_string(nodes[i]->port());
    members[i].channel = MakeExpertChannel(members[i].name);
    members[i].state = MemberState::kServing;
    members[i].weight = weights[i];
  }
  const ModelSpec spec = FullExperts();
  std::vector<SliceSet> held(
      count, SliceSet(spec.first_k_dense_replace, spec.num_moe_layers(),
                      spec.num_experts, placement.num_slices));
  const Placement plan(1, placement, members);
  std::vector<NodeRun> runs;
  for (int layer = spec.first_k_dense_replace; layer < spec.num_hidden_layers;
       ++layer) {
    for (int expert = 0; expert < spec.num_experts; ++expert) {
      for (int copy = 0; copy < placement.copies; ++copy) {
        plan.Cut({layer, expert}, copy, &runs);
        for (const NodeRun& run : runs) {
          held[run.node].Add({layer, expert}, run.slices);
        }
      }
    }
  }
  for (int i = 0; i < count; ++i) {
    members[i].holdings = std::make_shared<SliceSet>(std::move(held[i]));
  }
  return members;
}

}  // namespace deltafin::bench
