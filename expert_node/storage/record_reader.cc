#include "expert_node/storage/record_reader.h"

#include <algorithm>
#include <utility>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;

}  // namespace

std::string RecordReader::IndexPath(const std::string& folder, int layer) {
  return fmt::format("{}/layer-{:02d}.index", folder, layer);
}

std::string RecordReader::DataPath(const std::string& folder, int layer) {
  return fmt::format("{}/layer-{:02d}.experts", folder, layer);
}

absl::StatusOr<RecordReader> RecordReader::Open(
    const std::string& folder, const RecordIndexHeader& header) {
  const std::string path = IndexPath(folder, header.layer);
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxIndexBytes));
  absl::StatusOr<RecordIndexContents> contents = ParseRecordIndex(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  if (!contents.ok()) return AddContext(contents.status(), path);
  RETURN_IF_ERROR(AddContext(CheckSameRecords(contents->header, header), path));
  RecordReader reader(header);
  reader.data_path_ = DataPath(folder, header.layer);
  reader.damaged_ = std::move(contents->damaged);
  if (contents->good_bytes < bytes.size()) {
    reader.damaged_.push_back(contents->good_bytes);
  }
  for (const RecordEntry& entry : contents->entries) reader.Apply(entry);
  absl::StatusOr<std::unique_ptr<DirectReader>> data =
      DirectReader::Open(reader.data_path_);
  if (data.ok()) {
    reader.data_ = *std::move(data);
  } else if (!absl::IsNotFound(data.status())) {
    return data.status();
  }
  return reader;
}

void RecordReader::Apply(const RecordEntry& entry) {
  std::vector<std::optional<Xxh128>>& slices = experts_[entry.expert];
  slices.resize(header_.shape.num_slices());
  for (int i = 0; i < entry.run.count; ++i) {
    slices[entry.run.first + i].reset();
    if (entry.kind == RecordEntry::Kind::kStored) {
      slices[entry.run.first + i] = entry.digests[i];
    }
  }
  if (entry.identity) identities_[entry.expert] = entry.identity;
}

bool RecordReader::HoldsAll(int expert) const {
  const auto& slices = experts_[expert];
  return !slices.empty() && std::ranges::all_of(slices, [](const auto& d) {
    return d.has_value();
  });
}

absl::Status RecordReader::CheckThere(int expert, int slice) const {
  if (data_ == nullptr) return absl::DataLossError("is missing");
  const uint64_t end = header_.shape.stride_bytes() * expert +
                       header_.shape.slice_offset(slice + 1);
  if (end <= data_->file_bytes()) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("has {} bytes, too few to hold", data_->file_bytes()));
}

absl::Status RecordReader::ReadSlice(int expert, int slice,
                                     std::span<uint8_t> out) const {
  RETURN_IF_ERROR(CheckThere(expert, slice));
  const uint64_t offset =
      header_.shape.stride_bytes() * expert + header_.shape.slice_offset(slice);
  constexpr uint64_t kPage = DirectReader::kAlignment;
  const auto address = reinterpret_cast<uintptr_t>(out.data());
  if (offset % kPage == 0 && address % kPage == 0 && out.size() % kPage == 0) {
    RETURN_IF_ERROR(data_->ReadAligned(offset, out.size(), out.data()));
  } else {
    AlignedBuffer buffer;
    ASSIGN_OR_RETURN(const std::span<const uint8_t> bytes,
                     data_->Read(offset, out.size(), buffer));
    std::ranges::copy(bytes, out.begin());
  }
  if (Xxh3Digest(out) == *experts_[expert][slice]) return absl::OkStatus();
  return absl::DataLossError("has bytes that are not those of their digest");
}

}  // namespace deltafin
