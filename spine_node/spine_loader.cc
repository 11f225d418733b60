#include "spine_node/spine_loader.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/base/tensor_names.h"
#include "spine_node/cpu/cpu_spine.h"
#include "spine_node/unit_layout.h"
#include "spine_node/unit_loader.h"

namespace deltafin {
namespace {

absl::Status LoadUnit(const UnitLayout& layout, UnitLoader& loader,
                      WeightMemory& memory) {
  ASSIGN_OR_RETURN(memory.dense, AlignedBuffer::Allocate(layout.dense_bytes));
  ASSIGN_OR_RETURN(memory.rows_int8,
                   AlignedBuffer::Allocate(layout.int8_bytes));
  RETURN_IF_ERROR(loader.LoadDense(layout, memory));
  RETURN_IF_ERROR(loader.Quantize(layout, memory));
  BindViews(layout, memory);
  return absl::OkStatus();
}

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
  UnitLoader loader(*weights.checkpoint, *options.kernel, *options.threads);
  weights.layers.resize(weights.spec.num_hidden_layers);
  for (int i = 0; i < weights.spec.num_hidden_layers; ++i) {
    LayerWeights& layer = weights.layers[i];
    const UnitLayout layout =
        LayOutLayer(weights.spec, i, options.precision, &layer);
    RETURN_IF_ERROR(LoadUnit(layout, loader, layer.memory));
    weights.resident_bytes += layout.dense_bytes + layout.int8_bytes;
  }
  const UnitLayout layout =
      LayOutHead(weights.spec, options.precision, &weights.head);
  RETURN_IF_ERROR(LoadUnit(layout, loader, weights.head.memory));
  weights.resident_bytes += layout.dense_bytes + layout.int8_bytes;
  return weights;
}

absl::StatusOr<std::unique_ptr<Spine>> LoadCpuSpine(
    const SpineOptions& options) {
  ASSIGN_OR_RETURN(SpineWeights weights, LoadSpineWeights(options));
  return CpuSpine::Create(std::move(weights), options);
}

}  // namespace deltafin
