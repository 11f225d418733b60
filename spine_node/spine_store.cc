#include "spine_node/spine_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = "lock";

Xxh128 TextDigest(const std::string& text) {
  return Xxh3Digest(
      {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// Folders that may hold the spine, in order of preference.
std::vector<std::string> Candidates(const SpineOptions& options) {
  const std::string name = options.precision == SpinePrecision::kInt8
                               ? "deltafin-spine-int8"
                               : "deltafin-spine-bf16";
  std::vector<std::string> folders = {
      (fs::path(options.model_dir) / name).string()};
  if (options.cache_dir.empty()) return folders;
  std::error_code error;
  const fs::path real = fs::canonical(options.model_dir, error);
  const Xxh128 digest = TextDigest(real.string());
  folders.push_back(
      (fs::path(options.cache_dir) /
       absl::StrFormat("%s-%016x", name, digest.low ^ digest.high))
          .string());
  return folders;
}

bool CanWrite(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return !error && access(folder.c_str(), W_OK | X_OK) == 0;
}

absl::StatusOr<FileDescriptor> LockFolder(const std::string& folder,
                                          const std::string& what) {
  const std::string path = absl::StrCat(folder, "/", kLockName);
  FileDescriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.valid()) return ErrnoStatus(errno, "create", path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  spdlog::info("waiting for the process that makes {} in {}", what, folder);
  while (flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "lock", path);
  }
  return lock;
}

void WarnUnlessMissing(const absl::Status& status) {
  if (absl::IsNotFound(status)) return;
  const absl::string_view why = status.message();
  spdlog::warn("{}; making it again", std::string_view(why.data(), why.size()));
}

absl::StatusOr<uint64_t> FreeBytes(const std::string& folder) {
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "look for free space in", folder);
  }
  return uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace

absl::StatusOr<SpineStore> SpineStore::Open(const SpineOptions& options,
                                            const Checkpoint& checkpoint,
                                            std::span<const UnitLayout> units) {
  SpineStore store(options, checkpoint);
  const std::vector<std::string> folders = Candidates(options);
  for (const std::string& folder : folders) {
    store.folder_ = folder;
    ASSIGN_OR_RETURN(const uint64_t missing, store.MissingBytes(units));
    if (missing == 0) return store;
  }
  for (const std::string& folder : folders) {
    if (!CanWrite(folder)) continue;
    store.folder_ = folder;
    RETURN_IF_ERROR(store.PrepareToMake(units));
    return store;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      store.what_, " cannot be kept: ", folders.back(),
      " cannot be written; make it writable, give another folder with "
      "--cache-dir, or use the bf16 spine with enough memory"));
}

absl::Status SpineStore::PrepareToMake(std::span<const UnitLayout> units) {
  ASSIGN_OR_RETURN(lock_, LockFolder(folder_, what_));
  RemoveAbandonedFiles(folder_);
  ASSIGN_OR_RETURN(const uint64_t needed, MissingBytes(units));
  if (needed == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(folder_));
  if (needed > free) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what_, " needs ", FormatByteSize(needed), " (", needed,
        " bytes) of disk in ", folder_, ", where ", FormatByteSize(free), " (",
        free,
        " bytes) are free; free some or use the bf16 spine with enough "
        "memory"));
  }
  spdlog::info("making {} in {}: {}", what_, folder_, FormatByteSize(needed));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SpineStore::MissingBytes(
    std::span<const UnitLayout> units) const {
  uint64_t bytes = 0;
  for (const UnitLayout& unit : units) {
    ASSIGN_OR_RETURN(const SpineFileKey key, Key(unit));
    if (CheckSpineFile(FilePath(unit), key).ok()) continue;
    bytes += kSpineFileHeaderBytes + key.payload_bytes;
  }
  return bytes;
}

absl::Status SpineStore::LoadOrMake(const UnitLayout& unit, UnitLoader& loader,
                                    std::span<uint8_t> rows) {
  ASSIGN_OR_RETURN(const SpineFileKey key, Key(unit));
  const absl::Status read = ReadSpineFile(FilePath(unit), key, *threads_, rows);
  if (read.ok()) return read;
  WarnUnlessMissing(read);
  return Make(unit, key, loader, rows);
}

absl::StatusOr<std::unique_ptr<SpineFile>> SpineStore::FindOrMake(
    const UnitLayout& unit, UnitLoader& loader) {
  ASSIGN_OR_RETURN(const SpineFileKey key, Key(unit));
  const std::string path = FilePath(unit);
  absl::StatusOr<std::unique_ptr<SpineFile>> found = SpineFile::Open(path, key);
  if (found.ok()) return found;
  WarnUnlessMissing(found.status());
  ASSIGN_OR_RETURN(AlignedBuffer rows,
                   AlignedBuffer::Allocate(unit.rows_bytes));
  RETURN_IF_ERROR(Make(unit, key, loader, rows.bytes()));
  return SpineFile::Open(path, key);
}

absl::StatusOr<std::unique_ptr<SpineFile>> SpineStore::MakeAgain(
    const UnitLayout& unit, UnitLoader& loader, std::span<uint8_t> rows) {
  ASSIGN_OR_RETURN(const SpineFileKey key, Key(unit));
  ASSIGN_OR_RETURN(const FileDescriptor lock, LockFolder(folder_, what_));
  RETURN_IF_ERROR(Make(unit, key, loader, rows));
  return SpineFile::Open(FilePath(unit), key);
}

absl::Status SpineStore::Make(const UnitLayout& unit, const SpineFileKey& key,
                              UnitLoader& loader, std::span<uint8_t> rows) {
  RETURN_IF_ERROR(loader.LoadRows(unit, rows));
  return AddContext(WriteSpineFile(FilePath(unit), key, *threads_, rows),
                    absl::StrCat("keeping ", what_));
}

std::string SpineStore::FilePath(const UnitLayout& unit) const {
  return absl::StrCat(folder_, "/", unit.name, ".spine");
}

// The source is known by its shards' names, sizes and times of change.
absl::StatusOr<SpineFileKey> SpineStore::Key(const UnitLayout& unit) const {
  std::set<std::string> shards;
  for (const MatrixPlace& place : unit.matrices) {
    const TensorSpec& tensor = place.tensor;
    ASSIGN_OR_RETURN(
        const TensorLocation location,
        checkpoint_->Find(tensor.name, tensor.dtype, tensor.shape));
    struct stat info;
    const std::string& path = location.file->path();
    if (fstat(location.file->fd(), &info) != 0) {
      return ErrnoStatus(errno, "look at", path);
    }
    shards.insert(absl::StrCat(fs::path(path).filename().string(), " ",
                               info.st_size, " ", info.st_mtim.tv_sec, " ",
                               info.st_mtim.tv_nsec, "\n"));
  }
  std::string source;
  for (const std::string& shard : shards) source += shard;
  return SpineFileKey{.payload_bytes = unit.rows_bytes,
                      .layout = LayoutDigest(unit),
                      .source = TextDigest(source)};
}

}  // namespace deltafin
