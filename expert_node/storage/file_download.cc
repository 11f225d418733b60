#include "expert_node/storage/file_download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <future>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr uint64_t kLeastPiece = 16 << 10;
constexpr uint64_t kMostPiece = 16 << 20;
constexpr uint64_t kParallelFrom = 64 << 20;

// A piece on its way.
struct Piece {
  std::vector<uint8_t> bytes;
  std::future<absl::Status> done;
};

// The part of a file that has arrived: always its beginning.
class PartFile {
 public:
  PartFile(std::string path, const SourceFile& file, std::string part)
      : path_(std::move(path)), part_(std::move(part)), file_(file) {}

  // Takes what is there.
  absl::Status Open();
  uint64_t arrived() const { return arrived_; }
  absl::Status Append(std::span<const uint8_t> bytes);
  // Gives it its final name.
  absl::Status Complete();

 private:
  absl::Status HashArrived();

  const std::string path_;
  const std::string part_;
  const SourceFile& file_;
  FileDescriptor fd_;
  Sha256 sha_;
  uint64_t arrived_ = 0;
};

absl::Status PartFile::Open() {
  fd_ = FileDescriptor(open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd_.valid()) return ErrnoStatus(errno, "make", part_);
  if (flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(part_ + ": another process downloads it");
  }
  ASSIGN_OR_RETURN(const uint64_t size, FileSize(fd_.get(), part_));
  arrived_ = size;
  if (arrived_ > file_.bytes) {
    if (ftruncate(fd_.get(), 0) != 0) {
      return ErrnoStatus(errno, "truncate", part_);
    }
    arrived_ = 0;
  }
  return HashArrived();
}

absl::Status PartFile::HashArrived() {
  std::vector<uint8_t> buffer(std::min<uint64_t>(arrived_, 1 << 20));
  for (uint64_t at = 0; at < arrived_; at += buffer.size()) {
    buffer.resize(std::min<uint64_t>(arrived_ - at, 1 << 20));
    RETURN_IF_ERROR(ReadExactly(fd_.get(), at, buffer, part_));
    sha_.Update(buffer);
  }
  return absl::OkStatus();
}

absl::Status PartFile::Append(std::span<const uint8_t> bytes) {
  sha_.Update(bytes);
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_.get(), bytes.data(), bytes.size(),
                             static_cast<off_t>(arrived_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "write", part_);
    arrived_ += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status PartFile::Complete() {
  const std::string sha256 = sha_.FinishHex();
  if (!file_.sha256.empty() && sha256 != file_.sha256) {
    unlink(part_.c_str());
    return absl::DataLossError(fmt::format(
        "{}: the SHA-256 of what arrived is {} instead of {}; it was removed, "
        "fetch it again",
        file_.name, sha256, file_.sha256));
  }
  if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, "fsync", part_);
  if (rename(part_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, "rename", part_);
  }
  const std::string folder =
      std::filesystem::absolute(path_).parent_path().string();
  const FileDescriptor dir(
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.valid() || fsync(dir.get()) != 0) {
    return ErrnoStatus(errno, "fsync", folder);
  }
  return absl::OkStatus();
}

std::string PartName(const SourceFile& file, const std::string& path) {
  return fmt::format("{}.{}.part", path,
                     file.sha256.empty() ? std::to_string(file.bytes)
                                         : file.sha256.substr(0, 12));
}

// Parts of `path` that are of another content.
void RemoveOtherParts(const std::string& path, const std::string& part) {
  const std::filesystem::path whole = std::filesystem::absolute(path);
  const std::string prefix = whole.filename().string() + ".";
  std::error_code error;
  std::vector<std::filesystem::path> others;
  for (const auto& entry :
       std::filesystem::directory_iterator(whole.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    const bool is_part =
        name.starts_with(prefix) && name.ends_with(".part") &&
        std::count(name.begin() + static_cast<int64_t>(prefix.size()),
                   name.end(), '.') == 1;
    if (is_part && name != std::filesystem::path(part).filename()) {
      others.push_back(entry.path());
    }
  }
  for (const auto& other : others) std::filesystem::remove(other, error);
}

uint64_t PieceBytes(const SourceFile& file, const DownloadOptions& options) {
  if (options.piece_bytes != 0) return options.piece_bytes;
  return std::clamp(file.bytes / 400, kLeastPiece, kMostPiece);
}

// Reads the rest of `file` into `part`, in order, several pieces at once.
absl::Status FetchRest(ModelSource& source, const SourceFile& file,
                       PartFile& part, const DownloadOptions& options) {
  const uint64_t piece_bytes = PieceBytes(file, options);
  const size_t parallel =
      file.bytes < kParallelFrom ? 1 : std::max(options.parallel, 1);
  std::deque<Piece> pieces;  // their ends are awaited by the futures
  uint64_t next = part.arrived();
  while (part.arrived() < file.bytes) {
    if (options.cancelled && options.cancelled()) {
      return absl::CancelledError(file.name + ": cancelled");
    }
    while (pieces.size() < parallel && next < file.bytes) {
      Piece& piece = pieces.emplace_back();
      piece.bytes.resize(std::min(piece_bytes, file.bytes - next));
      piece.done = std::async(std::launch::async, [&, next] {
        return source.Read(file.name, next, piece.bytes);
      });
      next += piece.bytes.size();
    }
    RETURN_IF_ERROR(pieces.front().done.get());
    RETURN_IF_ERROR(part.Append(pieces.front().bytes));
    pieces.pop_front();
    if (options.progress) options.progress(part.arrived(), file.bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DownloadFile(ModelSource& source, const SourceFile& file,
                          const std::string& path,
                          const DownloadOptions& options) {
  struct stat there;
  const bool exists = stat(path.c_str(), &there) == 0;
  if (exists && static_cast<uint64_t>(there.st_size) == file.bytes) {
    return absl::OkStatus();
  }
  const std::string part_name = PartName(file, path);
  RemoveOtherParts(path, part_name);
  PartFile part(path, file, part_name);
  RETURN_IF_ERROR(part.Open());
  RETURN_IF_ERROR(FetchRest(source, file, part, options));
  return part.Complete();
}

}  // namespace deltafin
