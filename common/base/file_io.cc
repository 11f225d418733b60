#include "common/base/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// Linux transfers at most this much per call; larger requests come in parts.
constexpr size_t kMaxTransfer = size_t{1} << 30;

std::string DirectoryOf(const std::string& path) {
  const std::filesystem::path parent =
      std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

constexpr std::string_view kTemporaryMark = ".tmp-";

std::string TemporaryName(const std::string& path) {
  static std::atomic<uint64_t> serial{0};
  return fmt::format("{}{}{}-{}", path, kTemporaryMark, getpid(),
                     serial.fetch_add(1));
}

bool IsTemporaryName(std::string_view name) {
  const size_t mark = name.rfind(kTemporaryMark);
  if (mark == 0 || mark == name.npos) return false;
  const std::string_view numbers = name.substr(mark + kTemporaryMark.size());
  const size_t dash = numbers.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return dash != numbers.npos && is_number(numbers.substr(0, dash)) &&
         is_number(numbers.substr(dash + 1));
}

absl::Status SyncDirectory(const std::string& directory) {
  FileDescriptor fd(
      open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open directory", directory);
  if (fsync(fd.get()) != 0) {
    return ErrnoStatus(errno, "sync directory", directory);
  }
  return absl::OkStatus();
}

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case EIO:
      return absl::StatusCode::kDataLoss;
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::ErrnoToStatusCode(error);
  }
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

absl::Status ErrnoStatus(int error, std::string_view action,
                         const std::string& path) {
  return absl::Status(CodeOf(error), fmt::format("{} {}: {}", action, path,
                                                 std::strerror(error)));
}

absl::StatusOr<FileDescriptor> OpenForReading(const std::string& path,
                                              int flags) {
  // O_NONBLOCK: a FIFO in the place of a file must not hang us.
  FileDescriptor fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a regular file", path));
  }
  return fd;
}

absl::StatusOr<uint64_t> FileSize(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "stat", path);
  return static_cast<uint64_t>(info.st_size);
}

absl::Status ReadExactly(int fd, uint64_t offset, std::span<uint8_t> out,
                         const std::string& path) {
  size_t done = 0;
  while (done < out.size()) {
    const size_t want = std::min(out.size() - done, kMaxTransfer);
    const ssize_t got = pread(fd, out.data() + done, want, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", path);
    if (got == 0) {
      return absl::DataLossError(fmt::format(
          "read {} bytes at offset {} of {}: the file ends after {} of them",
          out.size(), offset, path, done));
    }
    done += got;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadToEnd(int fd, uint64_t max_bytes,
                                      const std::string& name) {
  std::string contents;
  char part[1 << 16];
  while (true) {
    const ssize_t count = read(fd, part, sizeof(part));
    if (count == 0) return contents;
    if (count < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "read", name);
    }
    contents.append(part, static_cast<size_t>(count));
    if (contents.size() > max_bytes) {
      return absl::InvalidArgumentError(fmt::format(
          "{} has more than the {} bytes allowed", name, max_bytes));
    }
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     uint64_t max_bytes) {
  ASSIGN_OR_RETURN(FileDescriptor fd, OpenForReading(path));
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

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format(
        "create {}: something that is no regular file is there, and would be "
        "replaced; name another file",
        path));
  }
  AtomicFile file;
  file.path_ = path;
  file.fd_ = FileDescriptor(
      open(DirectoryOf(path).c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0644));
  if (file.fd_.valid()) return file;
  file.temp_path_ = TemporaryName(path);
  file.fd_ = FileDescriptor(open(file.temp_path_.c_str(),
                                 O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.fd_.valid()) return ErrnoStatus(errno, "create", path);
  return file;
}

AtomicFile::~AtomicFile() { Discard(); }

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      temp_path_(std::exchange(other.temp_path_, "")),
      end_(other.end_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(temp_path_, other.temp_path_);
  std::swap(end_, other.end_);
  return *this;
}

void AtomicFile::Discard() {
  if (!temp_path_.empty()) unlink(temp_path_.c_str());
  temp_path_.clear();
}

absl::Status AtomicFile::Append(std::span<const uint8_t> bytes) {
  RETURN_IF_ERROR(WriteAt(end_, bytes));
  end_ += bytes.size();
  return absl::OkStatus();
}

absl::Status AtomicFile::WriteAt(uint64_t offset,
                                 std::span<const uint8_t> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const size_t want = std::min(bytes.size() - done, kMaxTransfer);
    const ssize_t put =
        pwrite(fd_.get(), bytes.data() + done, want, offset + done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus(errno, "write", path_);
    done += put;
  }
  return absl::OkStatus();
}

// A file without a name cannot replace one; a renamed file can.
absl::Status AtomicFile::GiveName() {
  const std::string temp = TemporaryName(path_);
  const std::string open_file = fmt::format("/proc/self/fd/{}", fd_.get());
  if (linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, temp.c_str(),
             AT_SYMLINK_FOLLOW) != 0) {
    return ErrnoStatus(errno, "name", path_);
  }
  temp_path_ = temp;
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, "sync", path_);
  if (temp_path_.empty()) RETURN_IF_ERROR(GiveName());
  if (std::rename(temp_path_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, "rename to", path_);
  }
  temp_path_.clear();
  return SyncDirectory(DirectoryOf(path_));
}

absl::Status WriteFileAtomically(const std::string& path,
                                 std::string_view contents) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file.Append(
      {reinterpret_cast<const uint8_t*>(contents.data()), contents.size()}));
  return file.Commit();
}

void RemoveAbandonedFiles(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> abandoned;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (IsTemporaryName(entry.path().filename().string())) {
      abandoned.push_back(entry.path());
    }
  }
  for (const std::filesystem::path& path : abandoned) {
    std::filesystem::remove(path, error);
  }
}

}  // namespace deltafin
