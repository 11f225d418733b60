// coordinator/cluster/drain_file.h
//
// The nodes that are out of service, kept in the coordinator's state folder so
// that a restart does not put them back to work. Thread-compatible.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin {

class DrainFile {
 public:
  // Ids that are kept, whether or not their nodes come back.
  static constexpr size_t kMaxIds = 256;

  // `folder`: the state folder, which this process has (EpochFile). Empty:
  // nothing is kept. Errors: DATA_LOSS for a file that is none,
  // INVALID_ARGUMENT for one of another format; those of the file system.
  static absl::StatusOr<DrainFile> Open(const std::string& folder);

  // As read or saved last.
  const std::set<std::string>& ids() const { return ids_; }
  // Is on disk when it returns OK. Otherwise it lasts as long as the process.
  absl::Status Save(const std::set<std::string>& ids);

 private:
  DrainFile() = default;
  absl::Status Read(const std::string& contents);

  std::string path_;  // empty: no file
  std::set<std::string> ids_;
};

}  // namespace deltafin
