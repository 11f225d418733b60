#include "coordinator/spine_assembly.h"

#include <string>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/base/memory_budget.h"
#include "common/base/progress.h"
#include "common/base/status_macros.h"
#include "spine_node/spine_loader.h"
#include "spine_node/split_spine.h"
#include "spine_node/torch_loader.h"

namespace deltafin {
namespace {

// In libtorch's words.
std::string TorchDevice(const CoordinatorOptions& options) {
  return options.device == "torch-cpu" ? "cpu" : options.device;
}

bool IsCard(const CoordinatorOptions& options) {
  return ValuesOn(TorchDevice(options)) == DeviceValues::kPacked;
}

DeviceValues ValuesOf(const CoordinatorOptions& options) {
  if (options.precision == SpinePrecision::kInt8) return DeviceValues::kPacked;
  return ValuesOn(TorchDevice(options));
}

// Layers first_layer and later, and the head.
absl::StatusOr<std::unique_ptr<PartialSpine>> LoadOnHost(
    const CoordinatorOptions& options, int first_layer, int num_streamed,
    const KernelTarget& kernel, ThreadPool& threads) {
  SpineOptions spine;
  spine.model_dir = options.model_dir;
  spine.precision = options.precision;
  spine.kernel = &kernel;
  spine.threads = &threads;
  spine.cache_dir = options.cache_dir;
  spine.num_streamed_layers = num_streamed;
  spine.first_layer = first_layer;
  Progress progress("loading the spine");
  spine.progress = [&progress](std::string_view, uint64_t done,
                               uint64_t total) {
    progress.Update(done, total);
  };
  return LoadCpuSpine(spine);
}

absl::StatusOr<std::unique_ptr<PartialSpine>> LoadOnDevice(
    const CoordinatorOptions& options, const DeviceShare& share) {
  TorchSpineOptions torch;
  torch.model_dir = options.model_dir;
  torch.device = TorchDevice(options);
  torch.precision = options.precision;
  torch.values = ValuesOf(options);
  torch.num_threads = options.num_threads;
  if (!share.has_head) torch.num_layers = share.num_layers;
  return LoadTorchSpine(torch);
}

void TellPlacement(const CoordinatorOptions& options, const ModelSpec& spec,
                   const DeviceShare& share) {
  if (options.device == "cpu") return;
  const int on_host = spec.num_hidden_layers - share.num_layers;
  spdlog::info("device {}: {} layers{}, {}; on the host: {} layers{}",
               options.device, share.num_layers,
               share.has_head ? " and the head" : "",
               FormatByteSize(share.bytes), on_host,
               share.has_head ? "" : " and the head");
}

}  // namespace

SpinePlacement PlaceSpine(const CoordinatorOptions& options,
                          const ModelSpec& spec) {
  SpinePlacement placement;
  placement.host = SpineNeeds(spec, options.precision);
  if (options.device == "cpu") return placement;
  placement.device =
      ChooseDeviceShare(spec,
                        {options.precision, ValuesOf(options),
                         options.max_sequences, options.context_tokens},
                        options.device_ram_bytes);
  const DeviceShare& share = placement.device;
  if (share.num_layers == 0) return placement;
  const SpineMemoryNeeds whole = placement.host;
  SpineMemoryNeeds& host = placement.host;
  host = SpineNeeds(spec, options.precision, share.num_layers);
  if (share.has_head) host.weight_bytes = 0;
  if (share.has_head) host.layer_row_bytes.clear();
  if (IsCard(options)) return placement;
  // The device's memory is the host's.
  host.weight_bytes += static_cast<int64_t>(share.weight_bytes);
  host.layer_row_bytes.clear();
  host.sequence_fixed_bytes = whole.sequence_fixed_bytes;
  host.sequence_token_bytes = whole.sequence_token_bytes;
  return placement;
}

absl::StatusOr<std::unique_ptr<Spine>> LoadSpine(
    const CoordinatorOptions& options, const ModelSpec& spec,
    const SpinePlacement& placement, int num_streamed,
    const KernelTarget& kernel, ThreadPool& threads) {
  const DeviceShare& share = placement.device;
  TellPlacement(options, spec, share);
  if (placement.on_host_alone()) {
    return LoadOnHost(options, 0, num_streamed, kernel, threads);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<PartialSpine> front,
                   LoadOnDevice(options, share));
  if (share.has_head) return std::unique_ptr<Spine>(std::move(front));
  ASSIGN_OR_RETURN(
      std::unique_ptr<PartialSpine> back,
      LoadOnHost(options, share.num_layers, num_streamed, kernel, threads));
  return MakeSplitSpine(std::move(front), std::move(back), share.num_layers);
}

}  // namespace deltafin
