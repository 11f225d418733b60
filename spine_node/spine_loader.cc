#include "spine_node/spine_loader.h"

#include <optional>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/tensor_names.h"
#include "spine_node/cpu/cpu_spine.h"
#include "spine_node/residency.h"
#include "spine_node/spine_store.h"
#include "spine_node/streamed_layers.h"
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
    std::vector<UnitLayout> units = LayOutUnits(options_.precision, weights_);
    uint64_t total = 0;
    const size_t first = static_cast<size_t>(options_.first_layer);
    for (size_t i = first; i < units.size(); ++i) {
      total += units[i].dense_bytes + (Streams(i) ? 0 : units[i].rows_bytes);
    }
    RETURN_IF_ERROR(OpenStore(units));
    for (size_t i = first; i < units.size(); ++i) {
      Tell(total);
      RETURN_IF_ERROR(LoadUnit(i, std::move(units[i])));
    }
    Tell(total);
    return StartStream();
  }

 private:
  void Tell(uint64_t total) const {
    if (!options_.progress) return;
    options_.progress("loading weights", weights_.resident_bytes, total);
  }

  // Unit i is layer i; the last one is the head, which stays.
  bool Streams(size_t i) const {
    const int num_layers =
        static_cast<int>(weights_.layers.size()) - options_.first_layer;
    const int layer = static_cast<int>(i) - options_.first_layer;
    return layer < num_layers &&
           StreamsLayer(layer, num_layers, options_.num_streamed_layers);
  }

  // Files are kept of every unit of an int8 spine, of what streams in bf16.
  absl::Status OpenStore(const std::vector<UnitLayout>& units) {
    std::vector<UnitLayout> kept;
    for (size_t i = options_.first_layer; i < units.size(); ++i) {
      const bool int8 = options_.precision == SpinePrecision::kInt8;
      if (int8 || Streams(i)) kept.push_back(units[i]);
    }
    if (kept.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(store_,
                     SpineStore::Open(options_, *weights_.checkpoint, kept));
    return absl::OkStatus();
  }

  absl::Status LoadUnit(size_t i, UnitLayout unit) {
    WeightMemory& memory = i < weights_.layers.size()
                               ? weights_.layers[i].memory
                               : weights_.head.memory;
    ASSIGN_OR_RETURN(memory.dense, AlignedBuffer::Allocate(unit.dense_bytes));
    RETURN_IF_ERROR(unit_loader_.LoadDense(unit, memory));
    if (!Streams(i)) {
      ASSIGN_OR_RETURN(memory.rows, AlignedBuffer::Allocate(unit.rows_bytes));
      RETURN_IF_ERROR(LoadRows(unit, memory.rows.bytes()));
    }
    BindViews(unit, memory);
    weights_.resident_bytes += memory.dense.size() + memory.rows.size();
    if (!Streams(i)) return absl::OkStatus();
    ASSIGN_OR_RETURN(std::unique_ptr<SpineFile> file,
                     store_->FindOrMake(unit, unit_loader_));
    streamed_.push_back(
        {static_cast<int>(i), std::move(unit), std::move(file)});
    return absl::OkStatus();
  }

  absl::Status LoadRows(const UnitLayout& unit, std::span<uint8_t> rows) {
    if (options_.precision == SpinePrecision::kInt8) {
      return store_->LoadOrMake(unit, unit_loader_, rows);
    }
    return unit_loader_.LoadRows(unit, rows);
  }

  absl::Status StartStream() {
    if (streamed_.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(weights_.stream,
                     StreamedLayers::Start(std::move(streamed_), Remaker()));
    weights_.resident_bytes += weights_.stream->buffer_bytes();
    return absl::OkStatus();
  }

  // Outlives the loader, not what the stream is part of.
  StreamedLayers::Remake Remaker() {
    store_->Unlock();
    return [store = std::make_shared<SpineStore>(*std::move(store_)),
            checkpoint = weights_.checkpoint.get(), kernel = options_.kernel,
            threads = options_.threads](const UnitLayout& unit,
                                        std::span<uint8_t> rows) {
      UnitLoader loader(*checkpoint, *kernel, *threads);
      return store->MakeAgain(unit, loader, rows);
    };
  }

  const SpineOptions& options_;
  SpineWeights& weights_;
  UnitLoader unit_loader_;
  std::optional<SpineStore> store_;
  std::vector<StreamedLayer> streamed_;
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

absl::StatusOr<std::unique_ptr<PartialSpine>> LoadCpuSpine(
    const SpineOptions& options) {
  ASSIGN_OR_RETURN(SpineWeights weights, LoadSpineWeights(options));
  return CpuSpine::Create(std::move(weights), options);
}

}  // namespace deltafin
