#include "coordinator/cluster/epoch_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/log.h"
#include "common/base/random_id.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr char kFormat[] = "deltafin-coordinator 1";
constexpr uint64_t kEpochsPerWrite = 1000;
constexpr uint64_t kMaxFileBytes = 4096;
// More is never written, and would leave no numbers to go on with.
constexpr uint64_t kMaxBound = 2 * kMaxReportedEpoch;

absl::Status NotOurs(const std::string& path) {
  return absl::DataLossError(fmt::format(
      "{} is damaged; delete it: the cluster's nodes know the last epoch",
      path));
}

// Errors: INVALID_ARGUMENT for the folder of a model or a node.
absl::Status RequireNobodyElses(const std::string& folder) {
  for (const char* const name : {"format", "config.json"}) {
    std::error_code error;
    if (!std::filesystem::exists(folder + "/" + name, error)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{} holds {}: it belongs to a model or a node; choose another --state "
        "folder",
        folder, name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EpochFile> EpochFile::Open(const std::string& folder,
                                          absl::Time now) {
  EpochFile file;
  file.coordinator_id_ = RandomId();
  file.current_ = static_cast<uint64_t>(absl::ToUnixSeconds(now));
  if (folder.empty()) return file;
  RETURN_IF_ERROR(RequireNobodyElses(folder));
  ASSIGN_OR_RETURN(file.lock_, FolderLock::Take(folder, "deltafin"));
  file.path_ = folder + "/epoch";
  const absl::StatusOr<std::string> contents =
      ReadFile(file.path_, kMaxFileBytes);
  if (contents.ok()) {
    RETURN_IF_ERROR(file.Read(*contents));
  } else if (!absl::IsNotFound(contents.status())) {
    return contents.status();
  }
  // Now, so that a folder that cannot be written is refused at the start.
  RETURN_IF_ERROR(file.Write(file.current_ + kEpochsPerWrite));
  return file;
}

absl::Status EpochFile::Read(const std::string& contents) {
  const size_t line = contents.find('\n');
  if (line == std::string::npos) return NotOurs(path_);
  const std::string format = contents.substr(0, line);
  if (format != kFormat) {
    if (!format.starts_with("deltafin-coordinator ")) return NotOurs(path_);
    return absl::InvalidArgumentError(
        fmt::format("{} has format '{}', this release knows '{}'; start the "
                    "release that wrote it, or choose another --state folder",
                    path_, format, kFormat));
  }
  char id[33] = "";
  unsigned long long bound = 0;
  if (std::sscanf(contents.c_str() + line + 1,
                  "id %32[0-9a-f]\nepochs_below %llu", id, &bound) != 2 ||
      !IsRandomId(id) || bound > kMaxBound) {
    return NotOurs(path_);
  }
  coordinator_id_ = id;
  current_ = bound;
  return absl::OkStatus();
}

uint64_t EpochFile::Next() {
  ++current_;
  if (path_.empty() || current_ < bound_) return current_;
  const absl::Status status = Write(current_ + kEpochsPerWrite);
  if (!status.ok() && !write_failed_) {
    spdlog::error(
        "the epoch cannot be kept: {}; after a restart without it the nodes "
        "tell it",
        status.ToString());
  }
  write_failed_ = !status.ok();
  return current_;
}

void EpochFile::RaiseAbove(uint64_t reported) {
  current_ = std::max(current_, std::min(reported, kMaxReportedEpoch));
}

absl::Status EpochFile::Write(uint64_t bound) {
  RETURN_IF_ERROR(
      WriteFileAtomically(path_, fmt::format("{}\nid {}\nepochs_below {}\n",
                                             kFormat, coordinator_id_, bound)));
  bound_ = bound;
  return absl::OkStatus();
}

}  // namespace deltafin
