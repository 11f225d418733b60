// Input: a byte that says whose file it is, then its text: NodeConfig,
// CoordinatorConfig or the PlannedCluster of `deltafin plan`. What is refused
// says where in the file, or which field; what is accepted is within bounds,
// and a plan of it is numbers.

#include <cmath>
#include <string>

#include "common/base/check.h"
#include "common/net/config_file.h"
#include "coordinator/cli/plan_command.h"
#include "coordinator/options.h"
#include "expert_node/options.h"
#include "tests/fuzz/silence.h"

namespace v1 = deltafin::v1;

namespace {

constexpr char kPath[] = "fuzz.txtpb";

bool ReadText(const std::string& text, google::protobuf::Message* config) {
  const absl::Status status = deltafin::ParseConfigText(kPath, text, config);
  if (status.ok()) return true;
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).starts_with(std::string(kPath) + ':'));
  return false;
}

void CheckRefusal(const absl::Status& status) {
  CHECK(absl::IsInvalidArgument(status));
  CHECK(!status.message().empty());
}

void TryNode(const std::string& text) {
  v1::NodeConfig config;
  if (!ReadText(text, &config)) return;
  const auto join = deltafin::JoinOptionsFromConfig(config);
  if (!join.ok()) CheckRefusal(join.status());
  const auto options = deltafin::OptionsFromConfig(config);
  if (!options.ok()) return CheckRefusal(options.status());
  CHECK(options->num_threads >= 0 && options->num_threads <= 1024);
  CHECK(!options->listen.empty() && !options->model_dir.empty());
  CHECK(options->keepalive_bound > absl::ZeroDuration());
}

void TryCoordinator(const std::string& text) {
  v1::CoordinatorConfig config;
  if (!ReadText(text, &config)) return;
  const auto options = deltafin::ParseCoordinatorOptions(config);
  if (!options.ok()) return CheckRefusal(options.status());
  CHECK(options->num_threads >= 0 && options->num_threads <= 1024);
  CHECK(options->max_sequences >= 1 && options->max_sequences <= 4096);
  CHECK(options->prefill_chunk >= 1 && options->prefill_chunk <= 65536);
  CHECK(options->context_tokens >= 0);
  CHECK(options->copies >= 1);
  CHECK(options->hedge_budget >= 0 && options->hedge_budget <= 1);
  CHECK(options->limits.gone_after >= 3 * options->limits.heartbeat);
  CHECK(options->layer_deadline > absl::ZeroDuration());
}

// A model so small that a plan takes no time.
const deltafin::TokenDemand& Demand() {
  static const auto& demand = *[] {
    auto* const small =
        new deltafin::TokenDemand(deltafin::FullK3Demand({}, 8192));
    small->routes.num_experts = 16;
    small->routes.top_k = 4;
    small->routes.num_layers = 4;
    small->expert_bytes = 17'547'264 * 16 * 4;
    return small;
  }();
  return demand;
}

void TryPlan(const std::string& text) {
  v1::PlannedCluster cluster;
  if (!ReadText(text, &cluster)) return;
  const auto plan = deltafin::ParsePlannedCluster(cluster);
  if (!plan.ok()) return CheckRefusal(plan.status());
  CHECK(plan->nodes.size() <= 256 && plan->copies >= 1 && plan->copies <= 8);
  // More machines take time and no other path.
  if (plan->nodes.size() > 8) return;
  const auto prediction = deltafin::PredictPlan(Demand(), *plan);
  if (!prediction.ok()) {
    CHECK(absl::IsResourceExhausted(prediction.status()));
    return;
  }
  CHECK(std::isfinite(prediction->seconds_per_token));
  CHECK(prediction->seconds_per_token > 0);
  for (const deltafin::NodePrediction& node : prediction->nodes) {
    CHECK(node.share >= 0 && node.share <= 1);
    CHECK(std::isfinite(node.seconds));
  }
  const std::string table = deltafin::PlanTable(Demand(), *prediction, {});
  for (const char c : table) {
    CHECK(c == '\n' || static_cast<uint8_t>(c) >= ' ');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = deltafin::Silence();
  if (size == 0 || !silent) return 0;
  const std::string text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  switch (bytes[0] % 3) {
    case 0:
      TryNode(text);
      break;
    case 1:
      TryCoordinator(text);
      break;
    default:
      TryPlan(text);
  }
  return 0;
}
