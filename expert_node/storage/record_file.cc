#include "expert_node/storage/record_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr size_t kMaxParts = 64;
// One request: large enough that a drive streams, small enough that others
// get between.
constexpr size_t kWritePieceBytes = size_t{4} << 20;

// The parts of a transfer that is `done` bytes on its way.
class Remaining {
 public:
  explicit Remaining(std::span<const std::span<uint8_t>> parts) {
    CHECK(parts.size() <= kMaxParts);
    for (const std::span<uint8_t> part : parts) Add(part);
  }
  bool empty() const { return first_ == size_; }
  const iovec* vectors() const { return &vectors_[first_]; }
  int size() const { return static_cast<int>(size_ - first_); }

  void Skip(size_t bytes) {
    while (bytes > 0) {
      iovec& part = vectors_[first_];
      const size_t step = std::min(bytes, part.iov_len);
      part.iov_base = static_cast<uint8_t*>(part.iov_base) + step;
      part.iov_len -= step;
      bytes -= step;
      if (part.iov_len == 0) ++first_;
    }
  }

 private:
  // Parts that touch are one for the kernel, which then has fewer to prepare.
  void Add(std::span<uint8_t> part) {
    if (size_ > 0) {
      iovec& last = vectors_[size_ - 1];
      if (static_cast<uint8_t*>(last.iov_base) + last.iov_len == part.data()) {
        last.iov_len += part.size();
        return;
      }
    }
    vectors_[size_++] = {part.data(), part.size()};
  }

  std::array<iovec, kMaxParts> vectors_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Open(
    const std::string& path, Missing missing) {
  const int flags =
      O_RDWR | O_CLOEXEC | (missing == Missing::kMake ? O_CREAT : 0);
  bool direct = true;
  FileDescriptor fd(open(path.c_str(), flags | O_DIRECT, 0644));
  if (!fd.valid() && (errno == EINVAL || errno == EOPNOTSUPP)) {
    direct = false;
    fd = FileDescriptor(open(path.c_str(), flags, 0644));
  }
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  return std::unique_ptr<RecordFile>(
      new RecordFile(path, std::move(fd), direct));
}

bool RecordFile::LeaveDirect(int error) {
  if ((error != EINVAL && error != EOPNOTSUPP) || !direct()) return false;
  const int flags = fcntl(fd_.get(), F_GETFL);
  if (fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) != 0) return false;
  direct_.store(false, std::memory_order_relaxed);
  return true;
}

absl::StatusOr<uint64_t> RecordFile::ReadUpTo(
    uint64_t offset, std::span<const std::span<uint8_t>> parts) {
  Remaining rest(parts);
  uint64_t done = 0;
  while (!rest.empty()) {
    const ssize_t got = preadv(fd_.get(), rest.vectors(), rest.size(),
                               static_cast<off_t>(offset + done));
    if (got < 0 && (errno == EINTR || LeaveDirect(errno))) continue;
    if (got < 0) return ErrnoStatus(errno, "read", path_);
    if (got == 0) break;
    done += got;
    // A count that is no multiple of the page is the end of the file.
    if (direct() && got % kPageBytes != 0) break;
    rest.Skip(got);
  }
  return done;
}

absl::Status RecordFile::Read(uint64_t offset,
                              std::span<const std::span<uint8_t>> parts) {
  uint64_t wanted = 0;
  for (const std::span<uint8_t> part : parts) wanted += part.size();
  ASSIGN_OR_RETURN(const uint64_t got, ReadUpTo(offset, parts));
  if (got == wanted) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("read {}: the file ends at {}", path_, offset + got));
}

absl::Status RecordFile::ReadOrZeros(uint64_t offset, std::span<uint8_t> part) {
  ASSIGN_OR_RETURN(const uint64_t got, ReadUpTo(offset, std::span(&part, 1)));
  std::memset(part.data() + got, 0, part.size() - got);
  return absl::OkStatus();
}

absl::Status RecordFile::Write(uint64_t offset,
                               std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd_.get(), bytes.data(),
                               std::min(bytes.size(), kWritePieceBytes),
                               static_cast<off_t>(offset));
    if (put < 0 && (errno == EINTR || LeaveDirect(errno))) continue;
    if (put < 0) return ErrnoStatus(errno, "write", path_);
    if (put == 0) return ErrnoStatus(ENOSPC, "write", path_);
    bytes = bytes.subspan(put);
    offset += put;
  }
  return absl::OkStatus();
}

absl::Status RecordFile::Sync() {
  if (fdatasync(fd_.get()) != 0) return ErrnoStatus(errno, "sync", path_);
  return absl::OkStatus();
}

void RecordFile::PunchHole(uint64_t begin, uint64_t end) {
  begin = PagesUp(begin);
  end = PagesDown(end);
  if (begin >= end) return;
  // Where this is not possible the room stays taken, and is used again when
  // the same slices return.
  (void)fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(begin), static_cast<off_t>(end - begin));
}

}  // namespace deltafin
