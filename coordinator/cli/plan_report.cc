// The two forms in which `deltafin plan` shows a prediction.

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

#include "common/base/memory_budget.h"
#include "coordinator/cli/plan_command.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;

std::string NodeLines(const PlanPrediction& prediction) {
  std::string text =
      fmt::format("{:<24}{:>8}{:>11}{:>12}{:>10}  {}\n", "node", "share",
                  "in memory", "ms a layer", "slowest", "waits for");
  for (const NodePrediction& node : prediction.nodes) {
    text += fmt::format("{:<24}{:>7.1f}%{:>10.1f}%{:>12.2f}{:>9.0f}%  {}\n",
                        node.name, 100 * node.share, 100 * node.resident,
                        1e3 * node.seconds, 100 * node.slowest, node.limit);
  }
  return text;
}

std::string StreamLine(const PlanPrediction& prediction) {
  if (prediction.streamed_layers == 0) return "";
  return fmt::format(
      "the coordinator's memory does not hold the spine: {} layers are read "
      "from its disk for every token, {}; that adds {:.3f} s to computing and "
      "experts\n\n",
      prediction.streamed_layers,
      FormatByteSize(static_cast<uint64_t>(prediction.streamed_bytes)),
      prediction.stream_seconds);
}

}  // namespace

std::string PlanTable(const TokenDemand& demand,
                      const PlanPrediction& prediction,
                      const std::vector<Purchase>& purchases) {
  std::string text = fmt::format(
      "predicted    {:.2f} tokens/s, {:.3f} s a token: {:.3f} s spine, {:.3f} "
      "s experts\n"
      "limited by   {}\n"
      "balance      {:.3f} (mean over busiest node)\n\n",
      1 / prediction.seconds_per_token, prediction.seconds_per_token,
      prediction.spine_seconds, prediction.expert_seconds, prediction.limit,
      prediction.balance);
  text += StreamLine(prediction);
  text += NodeLines(prediction);
  text += "\nand with             tokens/s\n";
  for (const Purchase& purchase : purchases) {
    text += fmt::format("  {:<55}{:>6.2f}\n", purchase.what,
                        purchase.tokens_per_second);
  }
  text += "\nassuming\n";
  for (const std::string& line : PlanAssumptions(demand)) {
    text += fmt::format("  {}\n", line);
  }
  return text;
}

std::string PlanJson(const TokenDemand& demand,
                     const PlanPrediction& prediction,
                     const std::vector<Purchase>& purchases) {
  Json nodes = Json::array();
  for (const NodePrediction& node : prediction.nodes) {
    nodes.push_back({{"name", node.name},
                     {"share", node.share},
                     {"resident", node.resident},
                     {"layer_seconds", node.seconds},
                     {"slowest", node.slowest},
                     {"limit", node.limit}});
  }
  Json bought = Json::array();
  for (const Purchase& purchase : purchases) {
    bought.push_back({{"what", purchase.what},
                      {"tokens_per_second", purchase.tokens_per_second}});
  }
  const Json json = {{"predicted", true},
                     {"model", demand.model},
                     {"tokens_per_second", 1 / prediction.seconds_per_token},
                     {"seconds_per_token", prediction.seconds_per_token},
                     {"spine_seconds", prediction.spine_seconds},
                     {"expert_seconds", prediction.expert_seconds},
                     {"stream_seconds", prediction.stream_seconds},
                     {"streamed_layers", prediction.streamed_layers},
                     {"streamed_bytes", prediction.streamed_bytes},
                     {"balance", prediction.balance},
                     {"limit", prediction.limit},
                     {"nodes", nodes},
                     {"purchases", bought},
                     {"assumptions", PlanAssumptions(demand)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace deltafin
