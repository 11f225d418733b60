// common/base/file_io.h
//
// Files: whole reads with a bound, exact positioned reads, and writes that
// appear under their final name only when complete and on disk. All calls
// block on disk; errors name the path.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin {

// Owns a file descriptor. Move-only.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives the descriptor up without closing it.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// The status of an errno value, with the message "action path: reason".
// ENOENT -> NOT_FOUND, EACCES -> PERMISSION_DENIED, ENOSPC ->
// RESOURCE_EXHAUSTED, EIO -> DATA_LOSS and so on.
absl::Status ErrnoStatus(int error, std::string_view action,
                         const std::string& path);

// Opens a regular file for reading; `flags` are added to O_RDONLY | O_CLOEXEC.
absl::StatusOr<FileDescriptor> OpenForReading(const std::string& path,
                                              int flags = 0);
absl::StatusOr<uint64_t> FileSize(int fd, const std::string& path);

// Reads exactly out.size() bytes at `offset`. Errors: DATA_LOSS when the file
// ends first or the disk fails.
absl::Status ReadExactly(int fd, uint64_t offset, std::span<uint8_t> out,
                         const std::string& path);

// All that comes up to the end of a file, pipe or terminal. `name`: for errors.
// INVALID_ARGUMENT for more than max_bytes.
absl::StatusOr<std::string> ReadToEnd(int fd, uint64_t max_bytes,
                                      const std::string& name);

// The whole file. Errors: NOT_FOUND; INVALID_ARGUMENT when it is larger than
// max_bytes or no regular file.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     uint64_t max_bytes);

// A file being written without a name or, where the file system knows no such
// files, under a temporary one beside its final one. Dropped without Commit it
// leaves nothing behind; without a name, not even when the process is killed
// before Commit. Thread-compatible; WriteAt may be called from several threads.
class AtomicFile {
 public:
  // Replaces `path` on Commit. The directory must exist.
  static absl::StatusOr<AtomicFile> Create(const std::string& path);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;

  absl::Status Append(std::span<const uint8_t> bytes);
  absl::Status WriteAt(uint64_t offset, std::span<const uint8_t> bytes);
  // fsync, rename, fsync of the directory. The object is done afterwards.
  absl::Status Commit();

 private:
  AtomicFile() = default;
  void Discard();
  absl::Status GiveName();

  FileDescriptor fd_;
  std::string path_;
  std::string temp_path_;  // empty: no name yet, or committed
  uint64_t end_ = 0;       // where Append goes on
};

absl::Status WriteFileAtomically(const std::string& path,
                                 std::string_view contents);

// Removes the temporary files that processes killed in Commit left in `folder`;
// no error where there is no such folder. REQUIRES: nobody writes there, as
// who holds the folder's lock knows.
void RemoveAbandonedFiles(const std::string& folder);

}  // namespace deltafin
