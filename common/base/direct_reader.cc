#include "common/base/direct_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// One request: large enough that a disk streams, small enough that a range is
// several requests which others can interleave with.
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

constexpr uint64_t RoundDown(uint64_t value) {
  return value / DirectReader::kAlignment * DirectReader::kAlignment;
}
constexpr uint64_t RoundUp(uint64_t value) {
  return RoundDown(value + DirectReader::kAlignment - 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectReader>> DirectReader::Open(
    const std::string& path) {
  std::unique_ptr<DirectReader> reader(new DirectReader);
  reader->path_ = path;
  ASSIGN_OR_RETURN(reader->buffered_fd_, OpenForReading(path));
  ASSIGN_OR_RETURN(reader->file_bytes_,
                   FileSize(reader->buffered_fd_.get(), path));
  absl::StatusOr<FileDescriptor> direct = OpenForReading(path, O_DIRECT);
  if (direct.ok()) {
    reader->direct_fd_ = std::move(*direct);
    reader->direct_ = true;
  }
  return reader;
}

absl::StatusOr<std::span<const uint8_t>> DirectReader::Read(
    uint64_t offset, uint64_t bytes, AlignedBuffer& buffer) const {
  RETURN_IF_ERROR(RequireWithin(offset, bytes));
  if (buffer.size() < BufferBytes(bytes)) {
    ASSIGN_OR_RETURN(buffer, AlignedBuffer::Allocate(BufferBytes(bytes)));
  }
  const uint64_t begin = RoundDown(offset);
  RETURN_IF_ERROR(ReadAligned(begin, offset + bytes - begin, buffer.data()));
  return std::span<const uint8_t>(buffer.data() + (offset - begin), bytes);
}

absl::Status DirectReader::ReadAligned(uint64_t offset, uint64_t bytes,
                                       uint8_t* out) const {
  RETURN_IF_ERROR(RequireWithin(offset, bytes));
  if (direct()) {
    const absl::Status status = ReadDirect(offset, offset + bytes, out);
    if (!absl::IsUnimplemented(status)) return status;
    direct_.store(false, std::memory_order_relaxed);
  }
  return ReadExactly(buffered_fd_.get(), offset,
                     {out, static_cast<size_t>(bytes)}, path_);
}

absl::Status DirectReader::RequireWithin(uint64_t offset,
                                         uint64_t bytes) const {
  if (offset <= file_bytes_ && bytes <= file_bytes_ - offset) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError(
      fmt::format("read {} bytes at offset {} of {}: the file has {}", bytes,
                  offset, path_, file_bytes_));
}

// Reads [begin, end) widened at the end. UNIMPLEMENTED: the file system takes
// no direct reads.
absl::Status DirectReader::ReadDirect(uint64_t begin, uint64_t end,
                                      uint8_t* out) const {
  uint64_t at = begin;
  while (at < end) {
    const uint64_t want = std::min(RoundUp(end) - at, kPieceBytes);
    const ssize_t got = pread(direct_fd_.get(), out + (at - begin), want, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
      return absl::UnimplementedError("no direct reads");
    }
    if (got < 0) return ErrnoStatus(errno, "read", path_);
    at += got;
    // A count that is no multiple of the boundary is the end of the file.
    if (at < end && (got == 0 || got % kAlignment != 0)) {
      return absl::DataLossError(
          fmt::format("read {} bytes at offset {} of {}: the file ends at {}",
                      end - begin, begin, path_, at));
    }
  }
  return absl::OkStatus();
}

}  // namespace deltafin
