#include "expert_node/data_folder.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "common/base/digest.h"
#include "common/base/file_io.h"
#include "common/base/random_id.h"
#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// Coordinators count from the time of day and refuse nodes that tell more.
constexpr uint64_t kMaxEpoch = uint64_t{1} << 63;
constexpr char kFormat[] = "deltafin-node-data 1";
constexpr uint64_t kMaxFileBytes = 4096;
// More than any disk reads, within what coordinators accept.
constexpr uint64_t kMaxReadRate = 1'000'000'000'000;

// The first line of a small file. Errors: ReadFile's.
absl::StatusOr<std::string> ReadLine(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxFileBytes));
  if (const size_t end = text.find('\n'); end != std::string::npos) {
    text.resize(end);
  }
  return text;
}

// Machine ids of images that were copied are alike, and so may host names be.
std::string HomeOf(const std::string& folder) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  std::error_code error;
  const std::string path =
      std::filesystem::weakly_canonical(folder, error).string();
  const std::string home =
      fmt::format("{}\n{}\n{}", ReadLine("/etc/machine-id").value_or(""), host,
                  path.empty() ? folder : path);
  return Sha256Hex(
      std::span(reinterpret_cast<const uint8_t*>(home.data()), home.size()));
}

// Whether a folder holds nothing but what a start that was interrupted left.
// Errors: INVALID_ARGUMENT naming what else is there; of the file system.
absl::Status RequireNew(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == "lock" || name == "lost+found" ||
        name.starts_with("format.tmp-")) {
      continue;
    }
    return absl::InvalidArgumentError(fmt::format(
        "{} is not empty (it holds {}) and no data folder of a node: choose a "
        "new or empty one for --data",
        folder, name));
  }
  if (!error || error == std::errc::no_such_file_or_directory) {
    return absl::OkStatus();
  }
  return ErrnoStatus(error.value(), "list", folder);
}

absl::Status RequireOurs(const std::string& folder) {
  const absl::StatusOr<std::string> format = ReadLine(folder + "/format");
  if (absl::IsNotFound(format.status())) return RequireNew(folder);
  RETURN_IF_ERROR(format.status());
  if (*format == kFormat) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "data folder {} has format '{:.64}', this release knows '{}'; start the "
      "release that wrote it, or choose another folder",
      folder, *format, kFormat));
}

}  // namespace

DataFolder::DataFolder(std::string folder, FolderLock lock)
    : folder_(std::move(folder)),
      lock_(std::move(lock)),
      home_(HomeOf(folder_)) {}

absl::StatusOr<std::unique_ptr<DataFolder>> DataFolder::Open(
    const std::string& folder) {
  RETURN_IF_ERROR(RequireOurs(folder));
  ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(folder, "deltafin-node"));
  std::unique_ptr<DataFolder> self(new DataFolder(folder, std::move(lock)));
  RETURN_IF_ERROR(self->KeepFormat());
  RemoveAbandonedFiles(folder);
  RETURN_IF_ERROR(self->ReadNodeId());
  RETURN_IF_ERROR(self->ReadEpoch());
  RETURN_IF_ERROR(self->ReadSustainedRead());
  return self;
}

absl::Status DataFolder::KeepFormat() {
  const std::string path = folder_ + "/format";
  const absl::Status there = ReadLine(path).status();
  if (!absl::IsNotFound(there)) return there;
  return WriteFileAtomically(path, fmt::format("{}\n", kFormat));
}

absl::Status DataFolder::ReadNodeId() {
  const std::string path = folder_ + "/node_id";
  const absl::StatusOr<std::string> id = ReadLine(path);
  if (absl::IsNotFound(id.status())) {
    node_id_ = RandomId();
    return WriteFileAtomically(path, node_id_ + "\n");
  }
  RETURN_IF_ERROR(id.status());
  if (!IsRandomId(*id)) {
    return absl::DataLossError(fmt::format(
        "{} is damaged; delete it: the node is then a new one", path));
  }
  node_id_ = *id;
  return absl::OkStatus();
}

absl::Status DataFolder::ReadEpoch() {
  const std::string path = folder_ + "/epoch";
  const absl::StatusOr<std::string> text = ReadLine(path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, highest_epoch_);
  if (error == std::errc() && stop == end && highest_epoch_ <= kMaxEpoch) {
    return absl::OkStatus();
  }
  return absl::DataLossError(fmt::format(
      "{} is damaged; delete it: the coordinator keeps its own", path));
}

absl::Status DataFolder::ReadSustainedRead() {
  const std::string path = folder_ + "/read_rate";
  const absl::StatusOr<std::string> text = ReadLine(path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  uint64_t rate = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, rate);
  if (error != std::errc() || stop != end || rate > kMaxReadRate) {
    return absl::DataLossError(fmt::format(
        "{} is damaged; delete it, or measure again with --measure-disk",
        path));
  }
  sustained_read_ = static_cast<double>(rate);
  return absl::OkStatus();
}

absl::Status DataFolder::KeepSustainedRead(double bytes_per_second) {
  sustained_read_ = bytes_per_second;
  return WriteFileAtomically(folder_ + "/read_rate",
                             fmt::format("{:.0f}\n", bytes_per_second));
}

absl::Status DataFolder::KeepEpoch(uint64_t epoch) {
  if (epoch <= highest_epoch_) return absl::OkStatus();
  if (epoch > kMaxEpoch) {
    return absl::InvalidArgumentError(
        fmt::format("epoch {}, which no coordinator would take back", epoch));
  }
  highest_epoch_ = epoch;
  return WriteFileAtomically(folder_ + "/epoch", fmt::format("{}\n", epoch));
}

}  // namespace deltafin
