// expert_node/storage/record_file.h
//
// One layer-NN.experts file: whole pages past the page cache, read straight
// into several places at once. Falls back to buffered access where the file
// system takes no direct one. Thread-safe; ranges that are written while they
// are read give either bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_io.h"

namespace deltafin {

class RecordFile {
 public:
  static constexpr uint64_t kPageBytes = 4096;
  static constexpr uint64_t PagesDown(uint64_t n) {
    return n / kPageBytes * kPageBytes;
  }
  static constexpr uint64_t PagesUp(uint64_t n) {
    return PagesDown(n + kPageBytes - 1);
  }
  static bool OnPage(const void* p) {
    return reinterpret_cast<uintptr_t>(p) % kPageBytes == 0;
  }

  enum class Missing { kMake, kRefuse };
  // Errors: NOT_FOUND when missing and not to be made; those of the file
  // system, with the path.
  static absl::StatusOr<std::unique_ptr<RecordFile>> Open(
      const std::string& path, Missing missing);

  const std::string& path() const { return path_; }
  // False once the file system has refused direct access.
  bool direct() const { return direct_.load(std::memory_order_relaxed); }

  // Fills the parts one after the other from `offset` on. REQUIRES: offset,
  // every part's start and size are multiples of kPageBytes; at most 64 parts.
  // Errors: DATA_LOSS when the drive fails or the file ends first.
  absl::Status Read(uint64_t offset, std::span<const std::span<uint8_t>> parts);
  absl::Status Read(uint64_t offset, std::span<uint8_t> part) {
    return Read(offset, std::span(&part, 1));
  }
  // The same, zeros beyond the end of the file.
  absl::Status ReadOrZeros(uint64_t offset, std::span<uint8_t> part);

  // REQUIRES: offset, start and size are multiples of kPageBytes. Errors:
  // RESOURCE_EXHAUSTED when the drive is full.
  absl::Status Write(uint64_t offset, std::span<const uint8_t> bytes);
  // What was written is on the drive afterwards.
  absl::Status Sync();
  // Gives the whole pages of [begin, end) back to the file system, which then
  // reads zeros; leaves them where it cannot.
  void PunchHole(uint64_t begin, uint64_t end);

 private:
  RecordFile(std::string path, FileDescriptor fd, bool direct)
      : path_(std::move(path)), fd_(std::move(fd)), direct_(direct) {}
  // Whether a refused transfer is to be tried again, now buffered.
  bool LeaveDirect(int error);
  // Returns the bytes read, fewer than wanted at the end of the file.
  absl::StatusOr<uint64_t> ReadUpTo(uint64_t offset,
                                    std::span<const std::span<uint8_t>> parts);

  const std::string path_;
  const FileDescriptor fd_;
  std::atomic<bool> direct_;
};

}  // namespace deltafin
