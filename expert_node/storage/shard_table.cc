#include "expert_node/storage/shard_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 30;

}  // namespace

std::vector<std::string> ShardLayout::SpineTensors() const {
  std::vector<std::pair<uint64_t, std::string>> sorted;
  for (const auto& [tensor, info] : tensors) {
    if (!IsExpertTensor(tensor)) sorted.emplace_back(info.offset, tensor);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> names;
  for (auto& [offset, tensor] : sorted) names.push_back(std::move(tensor));
  return names;
}

absl::StatusOr<ShardLayout> ParseShardHeader(const std::string& name,
                                             uint64_t shard_bytes,
                                             std::string_view header) {
  uint64_t json_bytes = 0;
  if (header.size() < sizeof(json_bytes)) {
    return absl::InvalidArgumentError(name + ": the header is cut short");
  }
  std::memcpy(&json_bytes, header.data(), sizeof(json_bytes));
  if (json_bytes != header.size() - sizeof(json_bytes)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the header has {} bytes, its length says {}", name,
                    header.size() - sizeof(json_bytes), json_bytes));
  }
  ShardLayout shard;
  shard.name = name;
  shard.bytes = shard_bytes;
  shard.data_begin = header.size();
  auto tensors = SafetensorsFile::ParseHeader(header.substr(sizeof(json_bytes)),
                                              shard.data_begin, shard_bytes);
  if (!tensors.ok()) return AddContext(tensors.status(), name);
  shard.tensors = *std::move(tensors);
  return shard;
}

absl::StatusOr<std::unique_ptr<ShardTable>> ShardTable::Load(
    const InstalledPaths& paths, const Manifest& manifest) {
  std::unique_ptr<ShardTable> table(new ShardTable);
  absl::flat_hash_map<std::string, uint32_t> index_of;
  for (const ManifestEntry& entry : manifest.entries) {
    if (!entry.file.ends_with(".safetensors")) continue;
    ASSIGN_OR_RETURN(const std::string header,
                     ReadFile(paths.header(entry.file), kMaxHeaderBytes));
    absl::StatusOr<ShardLayout> shard =
        ParseShardHeader(entry.file, entry.bytes, header);
    if (!shard.ok()) return AddContext(shard.status(), paths.dir());
    index_of[entry.file] = table->shards_.size();
    table->shards_.push_back(*std::move(shard));
  }
  ASSIGN_OR_RETURN(const std::string json,
                   ReadFile(paths.index(), kMaxIndexBytes));
  const auto map = Checkpoint::ParseIndex(json);
  if (!map.ok()) return AddContext(map.status(), paths.index());
  for (const auto& [tensor, shard] : *map) {
    const auto found = index_of.find(shard);
    if (found == index_of.end()) {
      return absl::InvalidArgumentError(
          fmt::format("{} names shard {}, which {} does not", paths.index(),
                      shard, paths.manifest()));
    }
    table->shard_of_[tensor] = found->second;
  }
  return table;
}

absl::StatusOr<ReleasedRun::Place> ShardTable::Find(
    const TensorSpec& tensor) const {
  const auto shard = shard_of_.find(tensor.name);
  if (shard == shard_of_.end()) {
    return absl::NotFoundError("the index names no tensor " + tensor.name);
  }
  const ShardLayout& layout = shards_[shard->second];
  const auto found = layout.tensors.find(tensor.name);
  if (found == layout.tensors.end()) {
    return absl::NotFoundError(
        fmt::format("{} holds no tensor {}, though the index says so",
                    layout.name, tensor.name));
  }
  const TensorInfo& info = found->second;
  if (info.dtype != tensor.dtype || info.shape != tensor.shape) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: tensor {} is {} [{}], but config.json asks for {} [{}]",
        layout.name, tensor.name, DTypeName(info.dtype),
        fmt::join(info.shape, ", "), DTypeName(tensor.dtype),
        fmt::join(tensor.shape, ", ")));
  }
  return ReleasedRun::Place{shard->second, info.offset};
}

}  // namespace deltafin
