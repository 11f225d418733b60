#include "coordinator/cluster/model_files.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/file_io.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kIndexSuffix = ".index.json";
constexpr std::string_view kShardSuffix = ".safetensors";

using WritePiece = absl::FunctionRef<bool(const v1::ModelFilePiece&)>;

absl::Status SendFile(const std::string& name, std::string_view contents,
                      WritePiece write) {
  do {
    v1::ModelFilePiece piece;
    piece.set_name(name);
    piece.set_file_bytes(contents.size());
    const size_t bytes = std::min(contents.size(), kPieceBytes);
    // The size tells the receiver when the file is whole.
    piece.set_data(std::string(contents.substr(0, bytes)));
    if (!write(piece)) return absl::CancelledError("the caller is gone");
    contents.remove_prefix(bytes);
    if (contents.empty()) break;
  } while (true);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ModelFiles::HeaderOf(
    const ManifestEntry& shard) const {
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(model_dir_));
  if (layout == ModelLayout::kInstalled) {
    return ReadFile(InstalledPaths(model_dir_).header(shard.file),
                    kMaxFileBytes);
  }
  const std::string path = model_dir_ + "/" + shard.file;
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenForReading(path));
  uint64_t json_bytes = 0;
  std::string header(sizeof(json_bytes), '\0');
  const auto bytes_from = [&header](size_t begin) {
    return std::span(reinterpret_cast<uint8_t*>(header.data()), header.size())
        .subspan(begin);
  };
  RETURN_IF_ERROR(ReadExactly(file.get(), 0, bytes_from(0), path));
  std::memcpy(&json_bytes, header.data(), sizeof(json_bytes));
  if (json_bytes > kMaxFileBytes ||
      json_bytes > shard.bytes - std::min<uint64_t>(shard.bytes, 8)) {
    return absl::DataLossError(
        fmt::format("{}: the header claims {} bytes of a file of {}", path,
                    json_bytes, shard.bytes));
  }
  header.resize(sizeof(json_bytes) + json_bytes);
  RETURN_IF_ERROR(ReadExactly(file.get(), sizeof(json_bytes),
                              bytes_from(sizeof(json_bytes)), path));
  return header;
}

absl::Status ModelFiles::Send(bool with_shards, WritePiece write) const {
  RETURN_IF_ERROR(SendFile("manifest", manifest_.Text(), write));
  for (const ManifestEntry& entry : manifest_.entries) {
    if (entry.file != kConfig &&
        !(with_shards && entry.file.ends_with(kIndexSuffix))) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::string contents,
                     ReadFile(model_dir_ + "/" + entry.file, kMaxFileBytes));
    RETURN_IF_ERROR(SendFile(entry.file, contents, write));
  }
  if (!with_shards) return absl::OkStatus();
  for (const ManifestEntry& entry : manifest_.entries) {
    if (!entry.file.ends_with(kShardSuffix)) continue;
    ASSIGN_OR_RETURN(const std::string header, HeaderOf(entry));
    RETURN_IF_ERROR(
        SendFile("headers/" + entry.file + ".header", header, write));
  }
  return absl::OkStatus();
}

}  // namespace deltafin
