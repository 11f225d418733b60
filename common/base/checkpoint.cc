// The sharded side of safetensors.h: index, shards opened on first use.

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/base/file_io.h"
#include "common/base/model_directory.h"
#include "common/base/mutex.h"
#include "common/base/safetensors.h"
#include "common/base/status_macros.h"
#include "common/base/tensor_names.h"
#include "simdjson.h"

namespace deltafin {
namespace {

namespace dom = simdjson::dom;

// The released index has 60 MB.
constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;
constexpr size_t kMaxDepth = 16;
constexpr std::string_view kSingleFile = "model.safetensors";

enum class TensorUse { kText, kVision, kUnknown };

TensorUse UseOf(std::string_view name) {
  if (name.starts_with("language_model.")) return TensorUse::kText;
  if (name.starts_with("vision_tower.") || name.starts_with("mm_projector.")) {
    return TensorUse::kVision;
  }
  return TensorUse::kUnknown;
}

absl::Status UnknownPrefix(std::string_view name) {
  return absl::InvalidArgumentError(
      fmt::format("tensor {} is under none of language_model., vision_tower. "
                  "and mm_projector.",
                  name));
}

// A shard is a plain file of the model directory.
bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.size() < 256 && name[0] != '.' &&
         name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos &&
         name.ends_with(".safetensors");
}

std::string ShapeText(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

struct Checkpoint::Impl {
  struct Shard {
    std::string name;
    std::string first_tensor;  // for messages
    std::unique_ptr<SafetensorsFile> file;
  };

  std::string model_dir;
  std::string shard_dir;
  bool has_experts = true;
  absl::flat_hash_map<std::string, uint32_t> shard_of;  // text tensors
  std::vector<Shard> shards;
  absl::flat_hash_map<std::string, uint32_t> shard_index;
  mutable Mutex mutex;  // guards the `file` pointers

  void AddTensor(std::string_view tensor, std::string_view shard);
  absl::Status ReadIndex(const std::string& json);
  absl::Status ReadSingleFile();
  absl::Status CheckShardsExist() const;
  absl::StatusOr<const SafetensorsFile*> Shard(uint32_t index);
};

void Checkpoint::Impl::AddTensor(std::string_view tensor,
                                 std::string_view shard) {
  const auto [entry, is_new] =
      shard_index.try_emplace(std::string(shard), shards.size());
  if (is_new) {
    shards.push_back({std::string(shard), std::string(tensor), nullptr});
  }
  shard_of.emplace(std::string(tensor), entry->second);
}

absl::Status Checkpoint::Impl::ReadIndex(const std::string& json) {
  ASSIGN_OR_RETURN(const auto map, ParseIndex(json));
  shard_of.reserve(map.size());
  for (const auto& [tensor, shard] : map) {
    if (has_experts || !IsExpertTensor(tensor)) AddTensor(tensor, shard);
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::Impl::ReadSingleFile() {
  ASSIGN_OR_RETURN(
      std::unique_ptr<SafetensorsFile> file,
      SafetensorsFile::Open(model_dir + "/" + std::string(kSingleFile)));
  for (const auto& [name, info] : file->tensors()) {
    const TensorUse use = UseOf(name);
    if (use == TensorUse::kUnknown) {
      return AddContext(UnknownPrefix(name), file->path());
    }
    if (use == TensorUse::kText) AddTensor(name, kSingleFile);
  }
  if (!shards.empty()) shards[0].file = std::move(file);
  return absl::OkStatus();
}

absl::Status Checkpoint::Impl::CheckShardsExist() const {
  for (const struct Shard& shard : shards) {
    const std::string path = shard_dir + "/" + shard.name;
    if (access(path.c_str(), F_OK) == 0) continue;
    return absl::NotFoundError(
        fmt::format("shard {} does not exist; it should hold tensor {}{}", path,
                    shard.first_tensor,
                    has_experts ? ""
                                : fmt::format("; `deltafin setup --resume "
                                              "--dir {}` brings it",
                                              model_dir)));
  }
  return absl::OkStatus();
}

absl::StatusOr<const SafetensorsFile*> Checkpoint::Impl::Shard(uint32_t index) {
  MutexLock lock(mutex);
  struct Shard& shard = shards[index];
  if (shard.file == nullptr) {
    ASSIGN_OR_RETURN(shard.file,
                     SafetensorsFile::Open(shard_dir + "/" + shard.name));
  }
  return shard.file.get();
}

absl::StatusOr<absl::flat_hash_map<std::string, std::string>>
Checkpoint::ParseIndex(std::string_view index_json) {
  dom::parser parser;
  dom::element root;
  dom::object map;
  simdjson::error_code error = parser.allocate(index_json.size(), kMaxDepth);
  if (!error) {
    error = parser.parse(simdjson::padded_string(index_json)).get(root);
  }
  if (!error) error = root["weight_map"].get_object().get(map);
  if (error) {
    return absl::InvalidArgumentError(fmt::format(
        "no valid JSON with a weight_map: {}", simdjson::error_message(error)));
  }
  absl::flat_hash_map<std::string, std::string> shard_of;
  absl::flat_hash_set<std::string> vision;
  shard_of.reserve(map.size());
  for (const dom::key_value_pair field : map) {
    std::string_view shard;
    if (field.value.get_string().get(shard) != simdjson::SUCCESS ||
        !IsPlainFileName(shard)) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {}: {} is no name of a .safetensors file",
                      field.key, simdjson::minify(field.value).substr(0, 80)));
    }
    const TensorUse use = UseOf(field.key);
    if (use == TensorUse::kUnknown) return UnknownPrefix(field.key);
    const bool is_new = use == TensorUse::kText
                            ? shard_of.emplace(field.key, shard).second
                            : vision.emplace(field.key).second;
    if (!is_new) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {} appears twice", field.key));
    }
  }
  return shard_of;
}

Checkpoint::Checkpoint() : impl_(std::make_unique<Impl>()) {}
Checkpoint::~Checkpoint() = default;

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(
    const std::string& model_dir) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  Impl& impl = *checkpoint->impl_;
  impl.model_dir = model_dir;
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(model_dir));
  impl.has_experts = layout == ModelLayout::kReleased;
  impl.shard_dir =
      impl.has_experts ? model_dir : InstalledPaths(model_dir).spine_folder();
  const std::string index_path = model_dir + "/model.safetensors.index.json";
  const absl::StatusOr<std::string> index =
      ReadFile(index_path, kMaxIndexBytes);
  if (index.ok()) {
    const absl::Status read = impl.ReadIndex(*index);
    if (!read.ok()) return AddContext(read, index_path);
  } else if (absl::IsNotFound(index.status()) && impl.has_experts) {
    // Without an index one file holds everything.
    const absl::Status read = impl.ReadSingleFile();
    if (!read.ok()) return absl::IsNotFound(read) ? index.status() : read;
  } else {
    return index.status();
  }
  RETURN_IF_ERROR(impl.CheckShardsExist());
  return checkpoint;
}

const std::string& Checkpoint::model_dir() const { return impl_->model_dir; }

bool Checkpoint::has_experts() const { return impl_->has_experts; }

bool Checkpoint::Has(std::string_view tensor) const {
  return impl_->shard_of.contains(
      absl::string_view(tensor.data(), tensor.size()));
}

absl::StatusOr<TensorLocation> Checkpoint::Find(
    std::string_view tensor, DType dtype,
    std::span<const int64_t> shape) const {
  const auto entry =
      impl_->shard_of.find(absl::string_view(tensor.data(), tensor.size()));
  if (entry == impl_->shard_of.end()) {
    return absl::NotFoundError(
        fmt::format("{} holds no tensor {}", impl_->model_dir, tensor));
  }
  ASSIGN_OR_RETURN(const SafetensorsFile* file, impl_->Shard(entry->second));
  const TensorInfo* info = file->Find(tensor);
  if (info == nullptr) {
    return absl::NotFoundError(
        fmt::format("{} holds no tensor {}, though the index says so",
                    file->path(), tensor));
  }
  if (info->dtype != dtype || !std::ranges::equal(info->shape, shape)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: tensor {} is {} {}, but config.json asks for {} {}", file->path(),
        tensor, DTypeName(info->dtype), ShapeText(info->shape),
        DTypeName(dtype), ShapeText(shape)));
  }
  return TensorLocation{file, info};
}

absl::Status Checkpoint::ReadTensor(std::string_view tensor, DType dtype,
                                    std::span<const int64_t> shape,
                                    std::span<uint8_t> out) const {
  ASSIGN_OR_RETURN(const TensorLocation location, Find(tensor, dtype, shape));
  if (out.size() != location.info->bytes) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} has {} bytes, the buffer {}", tensor,
                    location.info->bytes, out.size()));
  }
  return AddContext(location.file->Read(*location.info, 0, out),
                    fmt::format("tensor {}", tensor));
}

std::vector<std::string> Checkpoint::shards() const {
  std::vector<std::string> names;
  for (const auto& shard : impl_->shards) names.push_back(shard.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Checkpoint::tensors() const {
  std::vector<std::string> names;
  names.reserve(impl_->shard_of.size());
  for (const auto& [name, shard] : impl_->shard_of) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace deltafin
