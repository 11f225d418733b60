#include "coordinator/streamed_spine_notice.h"

#include <filesystem>

#include "common/base/memory_budget.h"
#include "expert_node/disk_measurement.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

std::string StreamedSpineNotice(const SpineResidency& residency, int num_layers,
                                std::optional<double> read_rate) {
  std::string notice = fmt::format(
      "the spine does not fit in its memory: {} of {} layers stay, {} are read "
      "from disk for every token (a prompt: for every step), {}",
      num_layers - residency.num_streamed, num_layers, residency.num_streamed,
      FormatByteSize(residency.step_bytes));
  if (!read_rate) return notice;
  return notice +
         fmt::format(
             "; at {} a second, as just measured, {:.2g} s a token, less what "
             "the spine computes and experts take meanwhile",
             FormatByteSize(static_cast<uint64_t>(*read_rate)),
             static_cast<double>(residency.step_bytes) / *read_rate);
}

std::optional<double> MeasureModelDrive(const std::string& model_dir) {
  // An installed model keeps its shards in a folder of their own.
  const std::string installed = std::filesystem::path(model_dir) / "spine";
  for (const std::string& dir : {model_dir, installed}) {
    const auto rates = MeasureDisk(dir, absl::Milliseconds(500));
    if (rates.ok() && rates->sustained > 0) return rates->sustained;
  }
  return std::nullopt;
}

}  // namespace deltafin
