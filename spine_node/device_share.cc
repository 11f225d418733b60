#include "spine_node/device_share.h"

#include "spine_node/spine_weights.h"
#include "spine_node/unit_layout.h"

namespace deltafin {
namespace {

constexpr uint64_t kTileRows = 32;
constexpr uint64_t kTileRowBytes = 128;

uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// A matrix as the device keeps it: whole tiles where packed.
uint64_t MatrixBytes(const LinearWeights& m, DeviceValues values) {
  const uint64_t rows = m.rows, cols = m.cols;
  if (values == DeviceValues::kFloat) return rows * cols * sizeof(float);
  const bool int8 = m.format == WeightFormat::kInt8;
  return RoundUp(rows, kTileRows) *
             RoundUp(cols * (int8 ? 1 : 2), kTileRowBytes) +
         (int8 ? rows * sizeof(float) : 0);
}

uint64_t UnitBytes(const UnitLayout& unit, DeviceValues values) {
  uint64_t bytes = 0;
  for (const MatrixPlace& place : unit.matrices) {
    bytes += MatrixBytes(*place.view, values);
  }
  for (const VectorPlace& place : unit.vectors) {
    bytes += place.count * sizeof(float);
  }
  return bytes;
}

uint64_t StateBytes(const ModelSpec& spec, int layer,
                    const DeviceDemand& demand) {
  constexpr uint64_t kHistory = 3 * 3;  // rows before the step, of q, k and v
  const uint64_t width = spec.kda_width();
  const uint64_t floats = spec.attention[layer] == AttentionKind::kKda
                              ? width * (spec.kda_head_dim + kHistory)
                              : static_cast<uint64_t>(demand.context_tokens) *
                                    (spec.kv_lora_rank + spec.qk_rope_head_dim);
  return sizeof(float) * floats * demand.max_sequences;
}

}  // namespace

DeviceShare ChooseDeviceShare(const ModelSpec& spec, const DeviceDemand& demand,
                              std::optional<uint64_t> limit) {
  DeviceShare share;
  // Whether there is room for so much more; takes it.
  const auto take = [&share, limit](uint64_t weights, uint64_t states) {
    const uint64_t bytes = share.bytes + weights + states;
    if (limit.has_value() && bytes > *limit) return false;
    share.bytes = bytes;
    share.weight_bytes += weights;
    return true;
  };
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    LayerWeights weights;
    const UnitLayout unit =
        LayOutLayer(spec, layer, demand.precision, &weights);
    if (!take(UnitBytes(unit, demand.values),
              StateBytes(spec, layer, demand))) {
      return share;
    }
    ++share.num_layers;
  }
  HeadWeights head;
  const UnitLayout unit = LayOutHead(spec, demand.precision, &head);
  share.has_head = take(UnitBytes(unit, demand.values), 0);
  return share;
}

}  // namespace deltafin
