#include "coordinator/cli/plan_command.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "common/base/memory_budget.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/net/config_file.h"

namespace deltafin {
namespace {

constexpr char kPlanFooter[] = R"(
FILE describes the machines, in text format:

  coordinator { name: "desk" ram: "128G" memory_read: "80G" }
  nodes {
    name: "mini" count: 4 ram: "64G" disk: "1T" disk_read: "3G"
    memory_read: "60G" link_gbit: 2.5 link_latency_ms: 0.1
  }
  spine: "int8" copies: 1

Sizes and rates are in powers of 1,024 ("64G"), rates a second. disk_read is the
rate sustained in direct reads, memory_read what all cores read together. The
coordinator may have disk and disk_read too: then it holds experts as well.

Without --model the plan is for Kimi K3 in full, from its published sizes.

Examples:
  deltafin plan --nodes cluster.txtpb
  deltafin plan --nodes cluster.txtpb --model /models/Kimi-K3 --json)";

constexpr double kLargestRate = 1e13;  // bytes a second
constexpr uint32_t kMostMachines = 256;
constexpr int64_t kDefaultContext = 8192;

// Reads the fields of one machine; keeps a line for each bad one.
class MachineReader {
 public:
  MachineReader(const v1::PlannedMachine& machine, std::string place,
                std::string* faults)
      : machine_(machine), place_(std::move(place)), faults_(faults) {}

  MachinePlan Read(bool is_node) {
    MachinePlan plan;
    plan.name = machine_.name().empty() ? place_ : OneLine(machine_.name());
    plan.ram_bytes = Size("ram", machine_.ram(), true);
    plan.memory_rate = Size("memory_read", machine_.memory_read(), true);
    plan.disk_bytes = Size("disk", machine_.disk(), is_node);
    plan.disk_rate = Size("disk_read", machine_.disk_read(), is_node);
    if (!is_node) return plan;
    plan.link_rate =
        Number("link_gbit", machine_.link_gbit(), 1e-3, 1e4) * 1e9 / 8;
    plan.link_latency =
        Number("link_latency_ms", machine_.link_latency_ms(), 0, 1e4) * 1e-3;
    return plan;
  }

 private:
  double Size(const char* field, const std::string& text, bool required) {
    if (text.empty() && !required) return 0;
    const auto bytes = ParseByteSize(text);
    if (bytes.ok() && *bytes > 0 && *bytes < kLargestRate * 100) {
      return static_cast<double>(*bytes);
    }
    Fault(field, fmt::format("'{}', want a size such as \"64G\"", text));
    return 1;
  }

  double Number(const char* field, double value, double least, double most) {
    if (std::isfinite(value) && value >= least && value <= most) return value;
    Fault(field, fmt::format("{}, want {} to {}", value, least, most));
    return least + 1;
  }

  void Fault(const char* field, const std::string& what) {
    if (!faults_->empty()) *faults_ += '\n';
    *faults_ += fmt::format("{}: {}: {}", place_, field, what);
  }

  const v1::PlannedMachine& machine_;
  const std::string place_;
  std::string* const faults_;
};

}  // namespace

PlanCommand::PlanCommand(CLI::App& app) {
  app.footer(kPlanFooter);
  app.add_option("--nodes", nodes_file_, "File that describes the machines")
      ->required();
  app.add_option("--model", model_dir_,
                 "Model directory to plan for (default: Kimi K3 in full)");
  app.add_flag("--json", json_, "Print one JSON object");
}

absl::Status PlanCommand::Run(TerminationSignal& /*signals*/) {
  v1::PlannedCluster cluster;
  RETURN_IF_ERROR(ReadConfigFile(nodes_file_, &cluster));
  const absl::StatusOr<ClusterPlan> plan = ParsePlannedCluster(cluster);
  if (!plan.ok()) return AddContext(plan.status(), nodes_file_);
  const SpinePrecision precision =
      cluster.spine() == "int8" ? SpinePrecision::kInt8 : SpinePrecision::kBf16;
  const int64_t context =
      cluster.context() > 0 ? cluster.context() : kDefaultContext;
  TokenDemand demand = FullK3Demand(precision, context);
  if (!model_dir_.empty()) {
    ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::Load(model_dir_));
    demand = DemandOf(spec, precision, context);
    demand.model = model_dir_;
  }
  ASSIGN_OR_RETURN(const PlanPrediction prediction, PredictPlan(demand, *plan));
  const std::vector<Purchase> purchases = PredictPurchases(demand, *plan);
  const std::string text = json_ ? PlanJson(demand, prediction, purchases)
                                 : PlanTable(demand, prediction, purchases);
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

absl::StatusOr<ClusterPlan> ParsePlannedCluster(
    const v1::PlannedCluster& cluster) {
  std::string faults;
  ClusterPlan plan;
  plan.coordinator =
      MachineReader(cluster.coordinator(), "coordinator", &faults).Read(false);
  size_t machines = 0;
  for (int i = 0; i < cluster.nodes_size(); ++i) {
    const v1::PlannedMachine& node = cluster.nodes(i);
    const MachinePlan machine =
        MachineReader(node, fmt::format("nodes {}", i + 1), &faults).Read(true);
    const uint32_t count = std::max(node.count(), 1u);
    machines += count;
    if (machines > kMostMachines) {
      return absl::InvalidArgumentError(
          fmt::format("more than {} machines", kMostMachines));
    }
    for (uint32_t k = 0; k < count; ++k) {
      plan.nodes.push_back(machine);
      if (count > 1) plan.nodes.back().name += fmt::format("-{}", k + 1);
    }
  }
  plan.copies = static_cast<int>(std::max(cluster.copies(), 1u));
  if (cluster.copies() > 8) faults += "\ncopies: want 1 to 8";
  if (!cluster.spine().empty() && cluster.spine() != "bf16" &&
      cluster.spine() != "int8") {
    faults += fmt::format("\nspine: '{}', want bf16 or int8", cluster.spine());
  }
  const bool own_experts = plan.coordinator.disk_rate > 0;
  if (plan.nodes.empty() && !own_experts) {
    faults += "\nnodes: none, and the coordinator has no disk_read";
  }
  if (!faults.empty()) return absl::InvalidArgumentError(faults);
  return plan;
}

namespace {

// Bytes of the spine's layers: the first is KDA and dense, every fourth and the
// last MLA, the others KDA. An int8 layer is about half of a bf16 one.
std::vector<uint64_t> FullK3Layers(SpinePrecision precision) {
  constexpr uint64_t kKdaDense = 2'341'213'184;
  constexpr uint64_t kKda = 1'267'744'256;
  constexpr uint64_t kMla = 844'335'616;
  constexpr int kNumLayers = 93;
  std::vector<uint64_t> layers(kNumLayers, kKda);
  layers[0] = kKdaDense;
  for (int i = 3; i < kNumLayers; i += 4) layers[i] = kMla;
  layers[kNumLayers - 1] = kMla;
  if (precision == SpinePrecision::kInt8) {
    for (uint64_t& bytes : layers) bytes /= 2;
  }
  return layers;
}

}  // namespace

TokenDemand FullK3Demand(SpinePrecision precision, int64_t context_tokens) {
  constexpr int64_t kExpertBytes = 17'547'264;
  constexpr int kNumSlices = 12;
  constexpr int kNumExperts = 896;
  constexpr int kNumLayers = 92;
  constexpr int64_t kLatent = 3584;
  // Without the embedding, of which a token reads one row.
  constexpr int64_t kSpineBf16 = 113'509'540'864 - 2'348'810'240;
  constexpr int64_t kSpineInt8 = 57'974'619'328 - 2'348'810'240;
  constexpr int64_t kSequenceFixed = 434'110'464;
  constexpr int64_t kSequenceToken = 55'296;
  TokenDemand demand;
  demand.model = "Kimi K3";
  demand.routes = {1, kNumLayers, kNumExperts, 16, kExpertBytes / kNumSlices};
  demand.num_slices = kNumSlices;
  demand.spine_bytes =
      precision == SpinePrecision::kInt8 ? kSpineInt8 : kSpineBf16;
  demand.spine_layer_bytes = FullK3Layers(precision);
  demand.sequence_bytes = kSequenceFixed + context_tokens * kSequenceToken;
  demand.message_bytes =
      kLatent * static_cast<int64_t>(sizeof(float) + sizeof(int64_t));
  demand.expert_bytes = kExpertBytes * kNumExperts * kNumLayers;
  return demand;
}

}  // namespace deltafin
