#include "expert_node/storage/spine_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/safetensors_writer.h"
#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<std::unique_ptr<SpineSource>> SpineSource::Create(
    ModelSource& released, const ShardTable& table) {
  std::unique_ptr<SpineSource> source(new SpineSource(released));
  for (const ShardLayout& shard : table.shards()) {
    RETURN_IF_ERROR(source->Add(shard));
  }
  return source;
}

absl::Status SpineSource::Add(const ShardLayout& shard) {
  const std::vector<std::string> names = shard.SpineTensors();
  if (names.empty()) return absl::OkStatus();
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const std::string& name : names) {
    const TensorInfo& info = shard.tensors.at(name);
    tensors.push_back({name, info.dtype, info.shape});
  }
  SpineFile file;
  ASSIGN_OR_RETURN(file.header, SafetensorsWriter::HeaderBytes(tensors));
  uint64_t end = file.header.size();
  for (const std::string& name : names) {
    const TensorInfo& info = shard.tensors.at(name);
    if (file.stretches.empty() ||
        file.stretches.back().shard_offset + file.stretches.back().bytes !=
            info.offset) {
      file.stretches.push_back({end, 0, info.offset});
    }
    file.stretches.back().bytes += info.bytes;
    end += info.bytes;
  }
  files_.push_back({shard.name, end, ""});
  layouts_[shard.name] = std::move(file);
  return absl::OkStatus();
}

absl::Status SpineSource::Read(const std::string& file, uint64_t offset,
                               std::span<uint8_t> out) {
  const auto layout = layouts_.find(file);
  if (layout == layouts_.end()) {
    return absl::NotFoundError(
        fmt::format("{}: {} holds no spine tensor", name(), file));
  }
  const std::string& header = layout->second.header;
  uint64_t done = 0;
  if (offset < header.size()) {
    done = std::min<uint64_t>(out.size(), header.size() - offset);
    std::memcpy(out.data(), header.data() + offset, done);
  }
  for (const Stretch& stretch : layout->second.stretches) {
    const uint64_t at = offset + done;
    if (done == out.size()) break;
    if (at >= stretch.begin + stretch.bytes) continue;
    const uint64_t skip = at - stretch.begin;
    const uint64_t bytes =
        std::min<uint64_t>(out.size() - done, stretch.bytes - skip);
    RETURN_IF_ERROR(released_.Read(file, stretch.shard_offset + skip,
                                   out.subspan(done, bytes)));
    done += bytes;
  }
  if (done == out.size()) return absl::OkStatus();
  return absl::OutOfRangeError(
      fmt::format("{}: the spine of {} ends {} bytes before what was asked",
                  name(), file, out.size() - done));
}

}  // namespace deltafin
