#include "common/net/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

absl::Status RequirePrivate(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "stat", path);
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) == 0) return absl::OkStatus();
  // As systemd hands a service its credentials: root's, with a list that names
  // the service's user, which shows as the group's right.
  if ((info.st_mode & 07777) == 0440 && info.st_uid == 0 && info.st_gid == 0) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(fmt::format(
      "{} has mode {:04o}: others on this machine may use the secret in it; "
      "chmod 600 it (and make a new one if they may have read it)",
      path, info.st_mode & 07777));
}

absl::Status WriteAll(int fd, std::string_view contents,
                      const std::string& path) {
  while (!contents.empty()) {
    const ssize_t put = write(fd, contents.data(), contents.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus(errno, "write", path);
    contents.remove_prefix(static_cast<size_t>(put));
  }
  if (fsync(fd) != 0) return ErrnoStatus(errno, "sync", path);
  return absl::OkStatus();
}

// A link fails where a rename would replace.
absl::Status GiveName(const std::string& temp, const std::string& path) {
  if (link(temp.c_str(), path.c_str()) == 0) return absl::OkStatus();
  if (errno != EEXIST) return ErrnoStatus(errno, "create", path);
  return absl::AlreadyExistsError(fmt::format(
      "{} is there already and is never replaced; move it away, or choose "
      "another name",
      path));
}

}  // namespace

absl::StatusOr<std::string> ReadSecretFile(const std::string& path,
                                           uint64_t max_bytes) {
  ASSIGN_OR_RETURN(const FileDescriptor fd, OpenForReading(path));
  RETURN_IF_ERROR(RequirePrivate(fd.get(), path));
  ASSIGN_OR_RETURN(const uint64_t size, FileSize(fd.get(), path));
  if (size > max_bytes) {
    return absl::InvalidArgumentError(fmt::format(
        "{} has {} bytes, more than the {} allowed", path, size, max_bytes));
  }
  std::string contents(size, '\0');
  RETURN_IF_ERROR(ReadExactly(
      fd.get(), 0, {reinterpret_cast<uint8_t*>(contents.data()), size}, path));
  return contents;
}

absl::Status WriteNewFile(const std::string& path, std::string_view contents,
                          mode_t mode) {
  const std::string temp = fmt::format("{}.tmp-{}", path, getpid());
  const FileDescriptor fd(
      open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.valid()) return ErrnoStatus(errno, "create", path);
  absl::Status status = WriteAll(fd.get(), contents, path);
  if (status.ok()) status = GiveName(temp, path);
  unlink(temp.c_str());
  return status;
}

}  // namespace deltafin
