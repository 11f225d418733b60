// expert_node/data_folder.h
//
// What a node keeps between its starts: who it is and the highest epoch it was
// told. One process has the folder at a time. Thread-compatible.
//
// FOLDER/format      "deltafin-node-data 1"
// FOLDER/node_id     32 hex digits, drawn at the first start
// FOLDER/epoch       decimal
// FOLDER/read_rate   decimal, bytes a second
// FOLDER/lock        the holder's name; locked while it lives
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/folder_lock.h"

namespace deltafin {

class DataFolder {
 public:
  // Makes the folder and its files where they are missing. Errors: UNAVAILABLE
  // naming the process that has it; INVALID_ARGUMENT for another format, and
  // for a folder of something else, such as a model's, which is left as it is;
  // DATA_LOSS for a damaged file, naming it and what to do; those of the file
  // system.
  static absl::StatusOr<std::unique_ptr<DataFolder>> Open(
      const std::string& folder);

  const std::string& node_id() const { return node_id_; }
  // SHA-256 hex over machine and folder: the same for every process that uses
  // this folder here, also after it was emptied.
  const std::string& home() const { return home_; }

  uint64_t highest_epoch() const { return highest_epoch_; }
  // Keeps `epoch` where it is higher. Errors: INVALID_ARGUMENT for one that no
  // coordinator counts to; of the file system, and it counts all the same.
  absl::Status KeepEpoch(uint64_t epoch);

  // What the disk with the experts sustained when it was measured; 0: never.
  double sustained_read() const { return sustained_read_; }
  // Errors: those of the file system.
  absl::Status KeepSustainedRead(double bytes_per_second);

 private:
  DataFolder(std::string folder, FolderLock lock);
  absl::Status KeepFormat();
  absl::Status ReadNodeId();
  absl::Status ReadEpoch();
  absl::Status ReadSustainedRead();

  const std::string folder_;
  const FolderLock lock_;
  std::string node_id_;
  std::string home_;
  uint64_t highest_epoch_ = 0;
  double sustained_read_ = 0;
};

}  // namespace deltafin
