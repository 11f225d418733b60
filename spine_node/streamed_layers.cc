#include "spine_node/streamed_layers.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"

namespace deltafin {

StreamedLayers::StreamedLayers(std::vector<StreamedLayer> layers)
    : layers_(std::move(layers)) {}

absl::StatusOr<std::unique_ptr<StreamedLayers>> StreamedLayers::Start(
    std::vector<StreamedLayer> layers, Remake remake) {
  std::unique_ptr<StreamedLayers> streamed(
      new StreamedLayers(std::move(layers)));
  std::vector<std::unique_ptr<SpineFile>> files;
  for (StreamedLayer& layer : streamed->layers_) {
    streamed->step_bytes_ += static_cast<int64_t>(layer.file->payload_bytes());
    files.push_back(std::move(layer.file));
  }
  ASSIGN_OR_RETURN(streamed->stream_,
                   RowStream::Start(std::move(files),
                                    [&layers = streamed->layers_, remake](
                                        int index, std::span<uint8_t> rows) {
                                      return remake(layers[index].layout, rows);
                                    }));
  return streamed;
}

absl::Status StreamedLayers::Prepare(int layer) {
  if (layer == held_layer_) return absl::OkStatus();
  Finish();
  const auto found = std::lower_bound(
      layers_.begin(), layers_.end(), layer,
      [](const StreamedLayer& a, int b) { return a.layer < b; });
  if (found == layers_.end() || found->layer != layer) return absl::OkStatus();
  const auto rows = stream_->Acquire(static_cast<int>(found - layers_.begin()));
  if (!rows.ok()) {
    return AddContext(rows.status(),
                      fmt::format("layer {}, which is read for every step; "
                                  "what was computed before is not affected",
                                  layer));
  }
  BindRows(found->layout, *rows);
  held_layer_ = layer;
  return absl::OkStatus();
}

void StreamedLayers::Finish() {
  if (held_layer_ == kNone) return;
  stream_->Release();
  held_layer_ = kNone;
}

void StreamedLayers::TakeCounts(SpineTimings& timings) {
  const RowStream::Counts counts = stream_->TakeCounts();
  timings.stream += counts.seconds;
  timings.stream_bytes += counts.bytes;
}

}  // namespace deltafin
