#include "common/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// "PROGRAM, process N", as the holder wrote it.
std::string HolderOf(int fd) {
  char text[128];
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  std::string holder(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
  holder.resize(std::min(holder.find('\n'), holder.size()));
  return holder.empty() ? "another process" : holder;
}

}  // namespace

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& folder,
                                            std::string_view program) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), "make folder", folder);
  const std::string path = folder + "/lock";
  FileDescriptor fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, "lock", path);
    return absl::UnavailableError(
        fmt::format("{} is in use by {}; end it, or choose another folder",
                    folder, HolderOf(fd.get())));
  }
  const std::string holder = fmt::format("{}, process {}\n", program, getpid());
  if (ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), holder.data(), holder.size(), 0) !=
          static_cast<ssize_t>(holder.size())) {
    return ErrnoStatus(errno, "write", path);
  }
  return FolderLock(std::move(fd));
}

}  // namespace deltafin
