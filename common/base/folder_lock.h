// common/base/folder_lock.h
//
// A folder that one process has at a time. The lock ends with the process,
// however it ends; its file names the holder and stays.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/file_io.h"

namespace deltafin {

class FolderLock {
 public:
  // Makes the folder where it is missing and takes FOLDER/lock. Errors:
  // UNAVAILABLE naming the holder's program and process id; those of the file
  // system.
  static absl::StatusOr<FolderLock> Take(const std::string& folder,
                                         std::string_view program);

 private:
  explicit FolderLock(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

}  // namespace deltafin
