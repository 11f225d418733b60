#include "coordinator/cluster/drain_file.h"

#include <algorithm>
#include <sstream>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr char kFormat[] = "deltafin-drained 1";
constexpr size_t kMaxIdSize = 128;
constexpr uint64_t kMaxFileBytes = 64 << 10;

bool IsId(const std::string& line) {
  return !line.empty() && line.size() <= kMaxIdSize &&
         std::all_of(line.begin(), line.end(),
                     [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

absl::StatusOr<DrainFile> DrainFile::Open(const std::string& folder) {
  DrainFile file;
  if (folder.empty()) return file;
  file.path_ = folder + "/drained";
  const absl::StatusOr<std::string> contents =
      ReadFile(file.path_, kMaxFileBytes);
  if (absl::IsNotFound(contents.status())) return file;
  RETURN_IF_ERROR(contents.status());
  RETURN_IF_ERROR(file.Read(*contents));
  return file;
}

absl::Status DrainFile::Read(const std::string& contents) {
  std::istringstream lines(contents);
  std::string line;
  std::getline(lines, line);
  if (line != kFormat && line.starts_with("deltafin-drained ")) {
    return absl::InvalidArgumentError(
        fmt::format("{} has format '{:.64}', this release knows '{}'; start "
                    "the release that wrote it, or delete the file: all nodes "
                    "are in service then",
                    path_, line, kFormat));
  }
  bool is_whole = line == kFormat && contents.ends_with('\n');
  while (is_whole && std::getline(lines, line)) {
    is_whole = IsId(line) && ids_.size() < kMaxIds;
    ids_.insert(line);
  }
  if (is_whole) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "{} is damaged; delete it: all nodes are in service then", path_));
}

absl::Status DrainFile::Save(const std::set<std::string>& ids) {
  ids_ = ids;
  if (path_.empty()) return absl::OkStatus();
  std::string contents = fmt::format("{}\n", kFormat);
  for (const std::string& id : ids) contents += id + '\n';
  return WriteFileAtomically(path_, contents);
}

}  // namespace deltafin
