// expert_node/storage/record_index.h
//
// One layer-NN.index file: appended to, each entry on the drive before Append
// returns. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_io.h"
#include "expert_node/storage/record_index_format.h"

namespace deltafin {

class RecordIndex {
 public:
  // Reads the file where there is one; the first Append makes it otherwise.
  // `entries` receives what happened, oldest first. A torn last entry is
  // skipped and written over; damaged ones are logged with path and offset.
  // Errors: those of ParseRecordIndex and CheckSameRecords and of the file
  // system, with the path.
  static absl::StatusOr<RecordIndex> Open(const std::string& path,
                                          const RecordIndexHeader& header,
                                          std::vector<RecordEntry>& entries);

  // On an error the entry does not count, nor after a restart unless the drive
  // took it all the same.
  absl::Status Append(const RecordEntry& entry);

  // Replaces the whole file, at once.
  absl::Status Rewrite(std::span<const RecordEntry> entries);

  const std::string& path() const { return path_; }
  // Found by Open.
  uint64_t num_damaged() const { return num_damaged_; }

 private:
  RecordIndex(std::string path, RecordIndexHeader header)
      : path_(std::move(path)), header_(std::move(header)) {}
  absl::Status OpenForAppending();

  std::string path_;
  RecordIndexHeader header_;
  FileDescriptor fd_;  // once something was appended
  uint64_t end_ = 0;   // where the next entry goes; 0: no file
  uint64_t num_damaged_ = 0;
};

}  // namespace deltafin
