#include "expert_node/storage/shard_digest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "common/base/digest.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "kernels/expert_tiles.h"

namespace deltafin {
namespace {

constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 30;
constexpr uint64_t kPieceBytes = uint64_t{8} << 20;
constexpr int kNumParts = 6;

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The number after `word` in a tensor's name; -1 where there is none.
int NumberAfter(std::string_view name, std::string_view word) {
  const size_t at = name.find(word);
  int number = -1;
  if (at != std::string_view::npos) {
    std::from_chars(name.data() + at + word.size(), name.data() + name.size(),
                    number);
  }
  return number;
}

class ShardDigester {
 public:
  ShardDigester(const ModelSpec& spec, const InstalledPaths& paths,
                const ShardLayout& shard,
                const std::map<int, RecordReader>& records,
                const std::function<absl::Status(uint64_t)>& advance)
      : spec_(spec),
        paths_(paths),
        shard_(shard),
        records_(records),
        advance_(advance) {}

  absl::StatusOr<std::string> Run() {
    ASSIGN_OR_RETURN(const std::string header,
                     ReadFile(paths_.header(shard_.name), kMaxHeaderBytes));
    sha_.Update(BytesOf(header));
    std::vector<std::pair<uint64_t, std::string>> by_offset;
    for (const auto& [name, info] : shard_.tensors) {
      by_offset.emplace_back(info.offset, name);
    }
    std::sort(by_offset.begin(), by_offset.end());
    for (const auto& [offset, name] : by_offset) {
      RETURN_IF_ERROR(IsExpertTensor(name)
                          ? AddExpertTensor(name)
                          : AddSpineTensor(name, shard_.tensors.at(name)));
    }
    return sha_.FinishHex();
  }

 private:
  absl::Status AddSpineTensor(const std::string& name, const TensorInfo& info) {
    if (spine_ == nullptr) {
      ASSIGN_OR_RETURN(spine_, SafetensorsFile::Open(paths_.spine_folder() +
                                                     "/" + shard_.name));
    }
    const TensorInfo* here = spine_->Find(name);
    if (here == nullptr || here->bytes != info.bytes) {
      return absl::DataLossError(spine_->path() + ": lacks tensor " + name);
    }
    for (uint64_t at = 0; at < info.bytes; at += piece_.size()) {
      piece_.resize(std::min(kPieceBytes, info.bytes - at));
      RETURN_IF_ERROR(spine_->Read(*here, at, piece_));
      RETURN_IF_ERROR(Add(piece_));
    }
    return absl::OkStatus();
  }

  absl::Status AddExpertTensor(const std::string& name) {
    const ExpertKey key{NumberAfter(name, ".layers."),
                        NumberAfter(name, ".experts.")};
    if (key.layer < 0 || key.layer >= spec_.num_hidden_layers ||
        key.expert < 0 || key.expert >= spec_.num_experts) {
      return absl::DataLossError("the model has no tensor " + name);
    }
    if (unpacked_ != key) RETURN_IF_ERROR(Unpack(key));
    for (int i = 0; i < kNumParts; ++i) {
      if (names_[i] != name) continue;
      return Add(parts_[i]);
    }
    return absl::DataLossError("the model has no tensor " + name);
  }

  absl::Status Unpack(ExpertKey key) {
    const auto records = records_.find(key.layer);
    if (records == records_.end() || !records->second.HoldsAll(key.expert)) {
      return absl::NotFoundError(
          fmt::format("layer {} expert {} is not held", key.layer, key.expert));
    }
    const ExpertShape shape = spec_.expert_shape();
    if (record_.size() == 0) {
      ASSIGN_OR_RETURN(record_, AlignedBuffer::Allocate(shape.stride_bytes()));
    }
    for (int slice = 0; slice < shape.num_slices(); ++slice) {
      const size_t begin = shape.slice_offset(slice);
      RETURN_IF_ERROR(records->second.ReadSlice(
          key.expert, slice,
          record_.bytes().subspan(begin,
                                  shape.slice_offset(slice + 1) - begin)));
    }
    const auto tensors = ExpertTensors(spec_, key);
    for (int i = 0; i < kNumParts; ++i) {
      names_[i] = tensors[i].name;
      parts_[i].resize(tensors[i].bytes());
    }
    // ExpertTensors gives gate, down, up; packed before scale.
    UnpackRecord(shape, record_.data(),
                 {parts_[0].data(), parts_[1].data(), parts_[4].data(),
                  parts_[5].data(), parts_[2].data(), parts_[3].data()});
    unpacked_ = key;
    return absl::OkStatus();
  }

  absl::Status Add(std::span<const uint8_t> bytes) {
    sha_.Update(bytes);
    return advance_(bytes.size());
  }

  const ModelSpec& spec_;
  const InstalledPaths& paths_;
  const ShardLayout& shard_;
  const std::map<int, RecordReader>& records_;
  const std::function<absl::Status(uint64_t)>& advance_;
  Sha256 sha_;
  std::unique_ptr<SafetensorsFile> spine_;
  std::vector<uint8_t> piece_;
  std::optional<ExpertKey> unpacked_;
  AlignedBuffer record_;
  std::array<std::string, kNumParts> names_;
  std::array<std::vector<uint8_t>, kNumParts> parts_;
};

}  // namespace

absl::StatusOr<std::string> DigestOfInstalledShard(
    const ModelSpec& spec, const InstalledPaths& paths,
    const ShardLayout& shard, const std::map<int, RecordReader>& records,
    const std::function<absl::Status(uint64_t)>& advance) {
  return ShardDigester(spec, paths, shard, records, advance).Run();
}

}  // namespace deltafin
