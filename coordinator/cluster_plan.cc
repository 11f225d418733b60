#include "coordinator/cluster_plan.h"

#include <algorithm>
#include <utility>

#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"
#include "spine_node/memory_needs.h"

namespace deltafin {
namespace {

// Of a streaming read: docs/performance.md, expert_kernel and linear_kernel.
constexpr double kExpertKernelOfRead = 0.9;
constexpr double kSpineOfRead = 0.95;
// Program, buffers and the system's own memory, on each machine.
constexpr double kMachineReserveBytes = 4e9;
// A round trip of an empty layer besides the link's: docs/performance.md,
// dispatch_round_trip.
constexpr double kDispatchSeconds = 150e-6;
constexpr double kInProcessSeconds = 100e-6;
constexpr int kDrawnLayers = 400;
constexpr uint64_t kSeed = 1;
// Residency and shares depend on each other; they settle quickly.
constexpr int kRounds = 4;

struct Site {
  MachinePlan machine;
  double tier_bytes = 0;  // memory for experts
  double latency = 0;     // a layer
};

double SpineMemory(const TokenDemand& demand) {
  return static_cast<double>(demand.spine_bytes + demand.sequence_bytes) +
         kMachineReserveBytes;
}

// Machines that hold experts; the coordinator where it has room for some.
std::vector<Site> SitesOf(const TokenDemand& demand, const ClusterPlan& plan) {
  std::vector<Site> sites;
  const double spare = plan.coordinator.ram_bytes - SpineMemory(demand);
  if (plan.coordinator.disk_bytes > 0 && plan.coordinator.disk_rate > 0) {
    sites.push_back(
        {plan.coordinator, std::max(0.0, spare), kInProcessSeconds});
  }
  for (const MachinePlan& node : plan.nodes) {
    sites.push_back(
        {node, std::max(0.0, node.ram_bytes - kMachineReserveBytes),
         2 * node.link_latency + kDispatchSeconds +
             static_cast<double>(demand.message_bytes) / node.link_rate});
  }
  return sites;
}

NodeSpeed SpeedOf(const TokenDemand& demand, const Site& site, double share) {
  NodeSpeed speed;
  speed.latency = site.latency;
  speed.read_rate = site.machine.disk_rate;
  speed.kernel_rate = kExpertKernelOfRead * site.machine.memory_rate;
  const double owned = share * static_cast<double>(demand.expert_bytes);
  speed.resident = owned > 0 ? std::min(1.0, site.tier_bytes / owned) : 1;
  return speed;
}

double SecondsPerByte(const NodeSpeed& speed) {
  return std::max((1 - speed.resident) / speed.read_rate,
                  1 / speed.kernel_rate);
}

Placement PlacementOf(const TokenDemand& demand, const ClusterPlan& plan,
                      const std::vector<double>& weights) {
  std::vector<Member> members(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    members[i].state = MemberState::kServing;
    members[i].weight = weights[i];
  }
  PlacementOptions options;
  options.num_slices = demand.num_slices;
  options.copies = plan.copies;
  return Placement(1, options, std::move(members));
}

// A machine's share is no more than its disk holds.
void LimitToDisks(const TokenDemand& demand, const ClusterPlan& plan,
                  const std::vector<Site>& sites,
                  std::vector<double>* weights) {
  double total = 0;
  for (const double weight : *weights) total += weight;
  for (size_t i = 0; i < sites.size(); ++i) {
    const double most =
        sites[i].machine.disk_bytes /
        (plan.copies * static_cast<double>(demand.expert_bytes));
    (*weights)[i] = std::min((*weights)[i] / total, most);
  }
}

struct Settled {
  std::vector<NodeSpeed> speeds;
  ExpertPrediction experts;
};

Settled Settle(const TokenDemand& demand, const ClusterPlan& plan,
               const std::vector<Site>& sites) {
  Settled settled;
  std::vector<double> share(sites.size(), 1.0 / sites.size());
  for (int round = 0; round < kRounds; ++round) {
    settled.speeds.clear();
    std::vector<double> weights;
    for (size_t i = 0; i < sites.size(); ++i) {
      settled.speeds.push_back(SpeedOf(demand, sites[i], share[i]));
      weights.push_back(1 / SecondsPerByte(settled.speeds[i]));
    }
    LimitToDisks(demand, plan, sites, &weights);
    settled.experts =
        PredictExperts(PlacementOf(demand, plan, weights), demand.routes,
                       settled.speeds, kDrawnLayers, kSeed);
    share = settled.experts.share;
  }
  return settled;
}

std::string LimitOf(const NodeSpeed& speed, double share, double layer_bytes) {
  if (share == 0) return "idle";
  const double read =
      (1 - speed.resident) * share * layer_bytes / speed.read_rate;
  const double compute = share * layer_bytes / speed.kernel_rate;
  if (speed.latency > std::max(read, compute)) return "link";
  return read > compute ? "disk" : "memory";
}

absl::Status CheckRoom(const TokenDemand& demand, const ClusterPlan& plan,
                       const std::vector<Site>& sites) {
  double disk = 0;
  for (const Site& site : sites) disk += site.machine.disk_bytes;
  const double wanted = plan.copies * static_cast<double>(demand.expert_bytes);
  if (disk < wanted) {
    return absl::ResourceExhaustedError(fmt::format(
        "the experts of {} take {} in {} copies, the disks have {}; add disks "
        "or machines",
        demand.model, FormatByteSize(static_cast<uint64_t>(wanted)),
        plan.copies, FormatByteSize(static_cast<uint64_t>(disk))));
  }
  return absl::OkStatus();
}

// Weights in memory at its rate, the rest from disk for every token.
double SpineSeconds(const TokenDemand& demand, const MachinePlan& machine) {
  const auto bytes = static_cast<double>(demand.spine_bytes);
  const double beyond = std::max(0.0, SpineMemory(demand) - machine.ram_bytes);
  const double streamed = std::min(beyond, bytes);
  const double memory = bytes / (kSpineOfRead * machine.memory_rate);
  if (streamed == 0) return memory;
  return std::max(memory, streamed / machine.disk_rate);
}

}  // namespace

TokenDemand DemandOf(const ModelSpec& spec, SpinePrecision precision,
                     int64_t context_tokens) {
  const ExpertShape shape = spec.expert_shape();
  const SpineMemoryNeeds needs = SpineNeeds(spec, precision);
  TokenDemand demand;
  demand.routes = {spec.first_k_dense_replace, spec.num_moe_layers(),
                   spec.num_experts, spec.num_experts_per_token,
                   static_cast<int64_t>(shape.slice_offset(1))};
  demand.num_slices = shape.num_slices();
  demand.spine_bytes = needs.weight_bytes;
  demand.sequence_bytes =
      needs.sequence_fixed_bytes + context_tokens * needs.sequence_token_bytes;
  demand.message_bytes = int64_t{spec.routed_expert_hidden_size} *
                         (sizeof(float) + sizeof(int64_t));
  demand.expert_bytes = static_cast<int64_t>(shape.payload_bytes()) *
                        spec.num_experts * spec.num_moe_layers();
  return demand;
}

absl::StatusOr<PlanPrediction> PredictPlan(const TokenDemand& demand,
                                           const ClusterPlan& plan) {
  const std::vector<Site> sites = SitesOf(demand, plan);
  RETURN_IF_ERROR(CheckRoom(demand, plan, sites));
  const Settled settled = Settle(demand, plan, sites);
  PlanPrediction prediction;
  prediction.balance = settled.experts.balance;
  prediction.spine_seconds = SpineSeconds(demand, plan.coordinator);
  prediction.expert_seconds =
      settled.experts.seconds_per_layer * demand.routes.num_layers;
  prediction.seconds_per_token =
      prediction.spine_seconds + prediction.expert_seconds;
  const double layer_bytes =
      1.0 * demand.routes.top_k * demand.num_slices * demand.routes.slice_bytes;
  size_t slowest = 0;
  for (size_t i = 0; i < sites.size(); ++i) {
    prediction.nodes.push_back(
        {sites[i].machine.name, settled.experts.share[i],
         settled.speeds[i].resident, settled.experts.seconds[i],
         settled.experts.slowest[i],
         LimitOf(settled.speeds[i], settled.experts.share[i], layer_bytes)});
    if (settled.experts.slowest[i] > settled.experts.slowest[slowest]) {
      slowest = i;
    }
  }
  prediction.limit =
      prediction.spine_seconds > prediction.expert_seconds
          ? fmt::format("the spine: memory of {}", plan.coordinator.name)
          : fmt::format("the experts: {} of {}",
                        prediction.nodes[slowest].limit,
                        prediction.nodes[slowest].name);
  return prediction;
}

std::vector<Purchase> PredictPurchases(const TokenDemand& demand,
                                       const ClusterPlan& plan) {
  std::vector<Purchase> purchases;
  const auto add = [&](std::string what, const ClusterPlan& with) {
    const auto prediction = PredictPlan(demand, with);
    if (!prediction.ok()) return;
    purchases.push_back({std::move(what), 1 / prediction->seconds_per_token});
  };
  const auto for_all = [&plan](auto change) {
    ClusterPlan with = plan;
    for (MachinePlan& node : with.nodes) change(node);
    return with;
  };
  if (!plan.nodes.empty()) {
    ClusterPlan with = plan;
    with.nodes.push_back(plan.nodes.back());
    add(fmt::format("one more node like {}", plan.nodes.back().name), with);
    add("a second drive in every node", for_all([](MachinePlan& node) {
          node.disk_rate *= 2;
          node.disk_bytes *= 2;
        }));
    add("twice the RAM in every node",
        for_all([](MachinePlan& node) { node.ram_bytes *= 2; }));
    add("links ten times as fast and a third of the latency",
        for_all([](MachinePlan& node) {
          node.link_rate *= 10;
          node.link_latency /= 3;
        }));
  }
  ClusterPlan with = plan;
  with.coordinator.memory_rate *= 2;
  add("a coordinator with twice the memory bandwidth", with);
  return purchases;
}

std::vector<std::string> PlanAssumptions(const TokenDemand& demand) {
  return {
      fmt::format("{}: {} of spine for every token, {} of experts in {} "
                  "layers, {} of {} a token",
                  demand.model,
                  FormatByteSize(static_cast<uint64_t>(demand.spine_bytes)),
                  FormatByteSize(static_cast<uint64_t>(demand.expert_bytes)),
                  demand.routes.num_layers, demand.routes.top_k,
                  demand.routes.num_experts),
      "all experts are equally likely: what is popular would be in memory "
      "more often",
      fmt::format("the kernels reach {:.2f} (experts) and {:.2f} (spine) of "
                  "the memory's read rate",
                  kExpertKernelOfRead, kSpineOfRead),
      fmt::format("{} of each machine's memory is for the system",
                  FormatByteSize(static_cast<uint64_t>(kMachineReserveBytes))),
      fmt::format("a layer's round trip costs {:.0f} us besides the link",
                  kDispatchSeconds * 1e6),
      "reading overlaps computing; nothing is read before it is asked for; one "
      "token at a time",
  };
}

}  // namespace deltafin
