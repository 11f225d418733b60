// common/base/direct_reader.h
//
// Reads byte ranges past the page cache, so that weights that are read once do
// not push out what is used often. Falls back to buffered reads where the file
// system refuses O_DIRECT. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/aligned_buffer.h"
#include "common/base/file_io.h"

namespace deltafin {

class DirectReader {
 public:
  // Ranges are widened to these boundaries: what O_DIRECT asks for.
  static constexpr uint64_t kAlignment = 4096;

  // Errors: NOT_FOUND and the other codes of OpenForReading, with the path.
  static absl::StatusOr<std::unique_ptr<DirectReader>> Open(
      const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }
  // False once the file system has refused a direct read.
  bool direct() const { return direct_.load(std::memory_order_relaxed); }

  // What a buffer needs to hold any range of `bytes` bytes, widened.
  static constexpr uint64_t BufferBytes(uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  }

  // Reads [offset, offset + bytes) into `buffer` and returns where the wanted
  // bytes lie in it (page-aligned only if `offset` is). Replaces `buffer` by a
  // larger one when it holds less than BufferBytes(bytes). Blocks on disk.
  // Errors: OUT_OF_RANGE beyond the end of the file, RESOURCE_EXHAUSTED,
  // DATA_LOSS on a short read; the buffer's contents are then undefined.
  absl::StatusOr<std::span<const uint8_t>> Read(uint64_t offset, uint64_t bytes,
                                                AlignedBuffer& buffer) const;
  // Reads [offset, offset + bytes) to `out`, up to whole pages. REQUIRES:
  // offset and out are multiples of kAlignment, and `out` has room for bytes
  // rounded up to one. Blocks on disk. Errors: as Read's.
  absl::Status ReadAligned(uint64_t offset, uint64_t bytes, uint8_t* out) const;

 private:
  DirectReader() = default;
  absl::Status RequireWithin(uint64_t offset, uint64_t bytes) const;
  absl::Status ReadDirect(uint64_t begin, uint64_t end, uint8_t* out) const;

  std::string path_;
  FileDescriptor direct_fd_;
  FileDescriptor buffered_fd_;
  uint64_t file_bytes_ = 0;
  mutable std::atomic<bool> direct_{false};
};

}  // namespace deltafin
