#include "tests/unit/expert_node/storage/played_drive.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <utility>

namespace deltafin {
namespace {

std::mutex reads_mutex;
std::vector<int64_t> reads;

}  // namespace

std::atomic<int64_t> PlayedDrive::bad_offset{-1};
std::atomic<int> PlayedDrive::writes_until_full{-1};

std::vector<int64_t> PlayedDrive::TakeReads() {
  const std::lock_guard<std::mutex> lock(reads_mutex);
  return std::exchange(reads, {});
}

}  // namespace deltafin

using deltafin::PlayedDrive;

extern "C" ssize_t preadv(int fd, const iovec* parts, int count, off_t offset) {
  const int64_t bad = PlayedDrive::bad_offset;
  int64_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
  {
    const std::lock_guard<std::mutex> lock(deltafin::reads_mutex);
    deltafin::reads.push_back(bytes);
  }
  if (bad >= offset && bad < offset + bytes) {
    errno = EIO;
    return -1;
  }
  return syscall(SYS_preadv, fd, parts, count, offset, 0);
}
extern "C" ssize_t preadv64(int fd, const iovec* parts, int count,
                            off_t offset) {
  return preadv(fd, parts, count, offset);
}

extern "C" ssize_t pwrite(int fd, const void* bytes, size_t size,
                          off_t offset) {
  const int left = PlayedDrive::writes_until_full;
  if (left > 0) --PlayedDrive::writes_until_full;
  if (left == 0) {
    syscall(SYS_pwrite64, fd, bytes, size / 2 / 4096 * 4096, offset);
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_pwrite64, fd, bytes, size, offset);
}
extern "C" ssize_t pwrite64(int fd, const void* bytes, size_t size,
                            off_t offset) {
  return pwrite(fd, bytes, size, offset);
}
