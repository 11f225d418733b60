#include "expert_node/storage/missing_experts_notice.h"

#include "common/base/memory_budget.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

std::string RateText(double bytes_per_second) {
  return FormatByteSize(static_cast<uint64_t>(bytes_per_second)) + "/s";
}

std::string PredictionText(const ExpertDemand& demand,
                           const LedgerRates& rates) {
  const std::optional<double> seconds = ExpertSecondsPerToken(demand, rates);
  if (!seconds) {
    return "how long a token takes is not known before some were fetched";
  }
  const std::string drive =
      demand.missing < 1 ? fmt::format(", the drive {}", RateText(rates.drive))
                         : "";
  return fmt::format(
      "at first a token takes some {:.3g} s for its experts, by the rates of "
      "before: the source gives {}{}",
      *seconds, RateText(rates.source), drive);
}

}  // namespace

std::optional<double> ExpertSecondsPerToken(const ExpertDemand& demand,
                                            const LedgerRates& rates) {
  double seconds = 0;
  for (const auto& [share, rate] :
       {std::pair(demand.missing, rates.source),
        std::pair(1 - demand.missing, rates.drive)}) {
    if (share <= 0) continue;
    if (rate <= 0) return std::nullopt;
    seconds += share * demand.bytes / rate;
  }
  return seconds;
}

std::string MissingExpertsNotice(const std::string& model_dir,
                                 const ModelSpec& spec,
                                 InstalledExperts& experts,
                                 const LedgerRates& rates) {
  const uint64_t all = uint64_t(spec.num_moe_layers()) * spec.num_experts;
  const uint64_t held = experts.records().stats().complete_experts;
  if (held == all) return "";
  const double installed = static_cast<double>(held) / static_cast<double>(all);
  const ExpertDemand demand = {
      static_cast<double>(spec.expert_shape().payload_bytes()) *
          spec.num_experts_per_token * spec.num_moe_layers(),
      1 - installed};
  return fmt::format(
      "{} is still streaming: {} of {} experts are installed ({:.1f} %), the "
      "others come from {} as they are used; {}; `deltafin fetch-experts {}` "
      "brings them all",
      model_dir, held, all, 100 * installed, experts.source_name(),
      PredictionText(demand, rates), model_dir);
}

}  // namespace deltafin
