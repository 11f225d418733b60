#include "tests/testing/faulty_reads.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "common/base/check.h"

namespace deltafin::testing {
namespace {

// By inode: a descriptor has no name.
struct Drive {
  std::mutex mutex;
  std::map<ino_t, int64_t> reads;
  ino_t bad_file = 0;
  int64_t bad_offset = -1;
};

Drive& TheDrive() {
  static Drive drive;
  return drive;
}

ino_t InodeOf(const std::string& path) {
  struct stat info;
  CHECK(stat(path.c_str(), &info) == 0, path);
  return info.st_ino;
}

// Counts the read; false: it fails.
bool MayRead(int fd, size_t size, int64_t offset) {
  struct stat info;
  if (fstat(fd, &info) != 0) return true;
  Drive& drive = TheDrive();
  const std::lock_guard<std::mutex> lock(drive.mutex);
  ++drive.reads[info.st_ino];
  return drive.bad_offset < offset ||
         drive.bad_offset >= offset + static_cast<int64_t>(size) ||
         drive.bad_file != info.st_ino;
}

}  // namespace

void FailReadsAt(const std::string& path, int64_t offset) {
  const ino_t inode = InodeOf(path);
  Drive& drive = TheDrive();
  const std::lock_guard<std::mutex> lock(drive.mutex);
  drive.bad_file = inode;
  drive.bad_offset = offset;
}

void ClearFaults() {
  Drive& drive = TheDrive();
  const std::lock_guard<std::mutex> lock(drive.mutex);
  drive.bad_offset = -1;
}

int64_t CountReads(const std::string& path) {
  const ino_t inode = InodeOf(path);
  Drive& drive = TheDrive();
  const std::lock_guard<std::mutex> lock(drive.mutex);
  return drive.reads[inode];
}

}  // namespace deltafin::testing

extern "C" ssize_t pread(int fd, void* out, size_t size, off_t offset) {
  if (!deltafin::testing::MayRead(fd, size, offset)) {
    errno = EIO;
    return -1;
  }
  return syscall(SYS_pread64, fd, out, size, offset);
}

extern "C" ssize_t pread64(int fd, void* out, size_t size, off_t offset) {
  return pread(fd, out, size, offset);
}
