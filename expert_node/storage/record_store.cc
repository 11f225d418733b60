#include "expert_node/storage/record_store.h"

#include <utility>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/layer_records.h"

namespace deltafin {
namespace {

absl::Status CheckModel(const RecordModel& model) {
  if (!ParseSha256Hex(model.manifest_digest)) {
    return absl::InvalidArgumentError(
        fmt::format("the manifest digest \"{}\" is no SHA-256 in lower-case "
                    "hex",
                    model.manifest_digest));
  }
  if (model.shape.num_slices() > kMaxRecordSlices) {
    return absl::InvalidArgumentError(
        fmt::format("experts of {} slices cannot be stored, at most {}",
                    model.shape.num_slices(), kMaxRecordSlices));
  }
  return absl::OkStatus();
}

}  // namespace

RecordModel RecordModel::Of(const ModelSpec& spec,
                            std::string manifest_digest) {
  return {spec.expert_shape(), spec.num_hidden_layers,
          spec.first_k_dense_replace, spec.num_experts,
          std::move(manifest_digest)};
}

absl::StatusOr<std::unique_ptr<RecordStore>> RecordStore::Open(
    const std::string& folder, const RecordModel& model,
    const RecordStoreOptions& options) {
  RETURN_IF_ERROR(CheckModel(model));
  ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(folder, options.program));
  std::unique_ptr<RecordStore> store(
      new RecordStore(folder, model, std::move(lock), options));
  RETURN_IF_ERROR(store->OpenLayers());
  RemoveAbandonedFiles(folder);
  return store;
}

RecordStore::RecordStore(std::string folder, RecordModel model, FolderLock lock,
                         const RecordStoreOptions& options)
    : folder_(std::move(folder)),
      model_(std::move(model)),
      lock_(std::move(lock)),
      shared_(std::make_unique<RecordShared>(folder_, options)) {}

RecordStore::~RecordStore() = default;

absl::Status RecordStore::OpenLayers() {
  layers_.resize(model_.num_layers);
  for (int layer = model_.first_moe_layer; layer < model_.num_layers; ++layer) {
    ASSIGN_OR_RETURN(
        layers_[layer],
        LayerRecords::Open(
            folder_,
            {layer, model_.shape, model_.num_experts, model_.manifest_digest},
            *shared_));
  }
  return absl::OkStatus();
}

LayerRecords* RecordStore::FindLayer(ExpertKey key) const {
  if (key.layer < 0 || key.layer >= model_.num_layers || key.expert < 0 ||
      key.expert >= model_.num_experts) {
    return nullptr;
  }
  return layers_[key.layer].get();
}

absl::StatusOr<LayerRecords*> RecordStore::LayerOf(ExpertKey key,
                                                   SliceRun run) const {
  LayerRecords* const layer = FindLayer(key);
  const int num_slices = model_.shape.num_slices();
  if (layer != nullptr && run.first >= 0 && run.count >= 1 &&
      run.count <= num_slices && run.first <= num_slices - run.count) {
    return layer;
  }
  return absl::InvalidArgumentError(fmt::format(
      "layer {} expert {} slices {}+{} are not of this model: layers {}..{}, "
      "{} experts, {} slices",
      key.layer, key.expert, run.first, run.count, model_.first_moe_layer,
      model_.num_layers - 1, model_.num_experts, num_slices));
}

int RecordStore::slices_per_read() const {
  return LayerRecords::SlicesPerRead(model_.shape);
}

absl::StatusOr<uint64_t> RecordStore::Read(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int slice)> ready) {
  ASSIGN_OR_RETURN(LayerRecords* const layer, LayerOf(key, run));
  return layer->Read(key.expert, run, out, ready);
}

bool RecordStore::Holds(ExpertKey key, SliceRun run) const {
  const absl::StatusOr<LayerRecords*> layer = LayerOf(key, run);
  if (!layer.ok()) return false;
  const uint64_t wanted = LayerRecords::MaskOf(run);
  return ((*layer)->HeldMask(key.expert) & wanted) == wanted;
}

uint64_t RecordStore::HeldMask(ExpertKey key) const {
  const LayerRecords* const layer = FindLayer(key);
  return layer == nullptr ? 0 : layer->HeldMask(key.expert);
}

uint64_t RecordStore::held_version() const { return shared_->held_version; }

std::vector<SliceRun> RecordStore::HeldSlices(ExpertKey key) const {
  const LayerRecords* const layer = FindLayer(key);
  if (layer == nullptr) return {};
  return LayerRecords::RunsOf(layer->HeldMask(key.expert));
}

std::optional<std::string> RecordStore::Identity(ExpertKey key) const {
  const LayerRecords* const layer = FindLayer(key);
  if (layer == nullptr) return std::nullopt;
  const std::optional<Sha256Bytes> identity = layer->Identity(key.expert);
  if (!identity) return std::nullopt;
  return Sha256HexOf(*identity);
}

absl::Status RecordStore::Install(ExpertKey key, SliceRun run,
                                  std::span<const uint8_t* const> slices,
                                  std::string_view identity) {
  ASSIGN_OR_RETURN(LayerRecords* const layer, LayerOf(key, run));
  const std::optional<Sha256Bytes> parsed = ParseSha256Hex(identity);
  if (!parsed && !identity.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("layer {} expert {}: \"{}\" is no SHA-256 in lower-case "
                    "hex",
                    key.layer, key.expert, identity));
  }
  return layer->Install(key.expert, run, slices, parsed);
}

bool RecordStore::HasRoom(uint64_t bytes) const {
  return shared_->room.Has(bytes);
}

absl::Status RecordStore::Remove(ExpertKey key, SliceRun run) {
  ASSIGN_OR_RETURN(LayerRecords* const layer, LayerOf(key, run));
  return layer->Remove(key.expert, run);
}

void RecordStore::SetQuota(uint64_t quota_bytes) {
  shared_->room.SetQuota(quota_bytes);
}

RecordStoreStats RecordStore::stats() const {
  const RecordShared& shared = *shared_;
  RecordStoreStats stats;
  stats.held_bytes = shared.room.held_bytes();
  stats.held_slices = shared.held_slices;
  stats.held_experts = shared.held_experts;
  stats.complete_experts = shared.complete_experts;
  stats.quota_bytes = shared.room.quota_bytes();
  stats.free_bytes = shared.room.free_bytes();
  stats.room_bytes = shared.room.left();
  stats.bytes_read = shared.bytes_read;
  stats.bytes_installed = shared.bytes_installed;
  stats.corrupt_slices = shared.corrupt_slices;
  stats.damaged_entries = shared.damaged_entries;
  return stats;
}

}  // namespace deltafin
