#include "spine_node/spine_loader.h"

#include <optional>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/tensor_names.h"
#include "spine_node/cpu/cpu_spine.h"
#include "spine_node/int8_store.h"
#include "spine_node/unit_layout.h"
#include "spine_node/unit_loader.h"

namespace deltafin {
namespace {

// The units of a spine in the order of loading: layers, then head. REQUIRES:
// weights.layers has its final size.
std::vector<UnitLayout> LayOutUnits(SpinePrecision precision,
                                    SpineWeights& weights) {
  std::vector<UnitLayout> units;
  for (int i = 0; i < weights.spec.num_hidden_layers; ++i) {
    units.push_back(
        LayOutLayer(weights.spec, i, precision, &weights.layers[i]));
  }
  units.push_back(LayOutHead(weights.spec, precision, &weights.head));
  return units;
}

// Loads units one after the other and tells how far it is.
class WeightsLoader {
 public:
  WeightsLoader(const SpineOptions& options, SpineWeights& weights)
      : options_(options),
        weights_(weights),
        unit_loader_(*weights.checkpoint, *options.kernel, *options.threads) {}

  absl::Status Run() {
    const std::vector<UnitLayout> units =
        LayOutUnits(options_.precision, weights_);
    uint64_t total = 0;
    for (const UnitLayout& unit : units) {
      total += unit.dense_bytes + unit.int8_bytes;
    }
    if (options_.precision == SpinePrecision::kInt8) {
      ASSIGN_OR_RETURN(int8_store_,
                       Int8Store::Open(options_, *weights_.checkpoint, units));
    }
    for (size_t i = 0; i < units.size(); ++i) {
      if (options_.progress) {
        options_.progress("loading weights", weights_.resident_bytes, total);
      }
      WeightMemory& memory = i < weights_.layers.size()
                                 ? weights_.layers[i].memory
                                 : weights_.head.memory;
      RETURN_IF_ERROR(LoadUnit(units[i], memory));
    }
    if (options_.progress) options_.progress("loading weights", total, total);
    return absl::OkStatus();
  }

 private:
  absl::Status LoadUnit(const UnitLayout& unit, WeightMemory& memory) {
    ASSIGN_OR_RETURN(memory.dense, AlignedBuffer::Allocate(unit.dense_bytes));
    ASSIGN_OR_RETURN(memory.rows_int8,
                     AlignedBuffer::Allocate(unit.int8_bytes));
    RETURN_IF_ERROR(unit_loader_.LoadDense(unit, memory));
    if (int8_store_.has_value()) {
      RETURN_IF_ERROR(int8_store_->LoadOrMake(unit, unit_loader_, memory));
    }
    BindViews(unit, memory);
    weights_.resident_bytes += unit.dense_bytes + unit.int8_bytes;
    return absl::OkStatus();
  }

  const SpineOptions& options_;
  SpineWeights& weights_;
  UnitLoader unit_loader_;
  std::optional<Int8Store> int8_store_;
};

}  // namespace

absl::StatusOr<SpineWeights> LoadSpineWeights(const SpineOptions& options) {
  SetContractFloatingPointMode();
  SpineWeights weights;
  ASSIGN_OR_RETURN(weights.spec, ModelSpec::Load(options.model_dir));
  ASSIGN_OR_RETURN(weights.checkpoint, Checkpoint::Open(options.model_dir));
  RETURN_IF_ERROR(ValidateCheckpoint(weights.spec, *weights.checkpoint));
  const TensorSpec embedding =
      GlobalTensor(weights.spec, "embed_tokens.weight");
  ASSIGN_OR_RETURN(weights.embedding,
                   weights.checkpoint->Find(embedding.name, embedding.dtype,
                                            embedding.shape));
  weights.layers.resize(weights.spec.num_hidden_layers);
  RETURN_IF_ERROR(WeightsLoader(options, weights).Run());
  return weights;
}

absl::StatusOr<std::unique_ptr<Spine>> LoadCpuSpine(
    const SpineOptions& options) {
  ASSIGN_OR_RETURN(SpineWeights weights, LoadSpineWeights(options));
  return CpuSpine::Create(std::move(weights), options);
}

}  // namespace deltafin
