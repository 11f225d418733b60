#include "spine_node/int8_store.h"

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

constexpr const char* kFolderName = "deltafin-spine-int8";
constexpr const char* kLockName = "lock";

Xxh128 TextDigest(const std::string& text) {
  return Xxh3Digest(
      {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// Folders that may hold the spine, in order of preference.
std::vector<std::string> Candidates(const SpineOptions& options) {
  std::vector<std::string> folders = {
      (fs::path(options.model_dir) / kFolderName).string()};
  if (options.cache_dir.empty()) return folders;
  std::error_code error;
  const fs::path real = fs::canonical(options.model_dir, error);
  const Xxh128 name = TextDigest(real.string());
  folders.push_back(
      (fs::path(options.cache_dir) /
       absl::StrFormat("%s-%016x", kFolderName, name.low ^ name.high))
          .string());
  return folders;
}

bool CanWrite(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return !error && access(folder.c_str(), W_OK | X_OK) == 0;
}

absl::StatusOr<FileDescriptor> LockFolder(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kLockName);
  FileDescriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.valid()) return ErrnoStatus(errno, "create", path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  spdlog::info("waiting for the process that makes the int8 spine in {}",
               folder);
  while (flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "lock", path);
  }
  return lock;
}

// REQUIRES: the folder's lock is held, so no process is writing these.
void RemoveInterruptedFiles(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().find(".spine.tmp-") !=
        std::string::npos) {
      leftovers.push_back(entry.path());
    }
  }
  for (const fs::path& path : leftovers) fs::remove(path, error);
}

absl::StatusOr<uint64_t> FreeBytes(const std::string& folder) {
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "look for free space in", folder);
  }
  return uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace

absl::StatusOr<Int8Store> Int8Store::Open(const SpineOptions& options,
                                          const Checkpoint& checkpoint,
                                          std::span<const UnitLayout> units) {
  Int8Store store(checkpoint, *options.threads);
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
      "the int8 spine cannot be kept: ", folders.back(),
      " cannot be written; make it writable, set a cache folder, or use the "
      "bf16 spine"));
}

absl::Status Int8Store::PrepareToMake(std::span<const UnitLayout> units) {
  ASSIGN_OR_RETURN(lock_, LockFolder(folder_));
  RemoveInterruptedFiles(folder_);
  ASSIGN_OR_RETURN(const uint64_t needed, MissingBytes(units));
  if (needed == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(folder_));
  if (needed > free) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the int8 spine needs ", FormatByteSize(needed), " (", needed,
        " bytes) of disk in ", folder_, ", where ", FormatByteSize(free), " (",
        free, " bytes) are free; free some or use the bf16 spine"));
  }
  spdlog::info("making the int8 spine in {}: {}", folder_,
               FormatByteSize(needed));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Int8Store::MissingBytes(
    std::span<const UnitLayout> units) const {
  uint64_t bytes = 0;
  for (const UnitLayout& unit : units) {
    ASSIGN_OR_RETURN(const SpineFileKey key, Key(unit));
    if (CheckSpineFile(FilePath(unit), key).ok()) continue;
    bytes += kSpineFileHeaderBytes + key.payload_bytes;
  }
  return bytes;
}

absl::Status Int8Store::LoadOrMake(const UnitLayout& unit, UnitLoader& loader,
                                   WeightMemory& memory) {
  ASSIGN_OR_RETURN(const SpineFileKey key, Key(unit));
  const std::string path = FilePath(unit);
  const absl::Status read =
      ReadSpineFile(path, key, *threads_, memory.rows_int8.bytes());
  if (read.ok()) return read;
  if (!absl::IsNotFound(read)) {
    spdlog::warn(
        "{}; making it again",
        std::string_view(read.message().data(), read.message().size()));
  }
  RETURN_IF_ERROR(loader.Quantize(unit, memory));
  return AddContext(
      WriteSpineFile(path, key, *threads_, memory.rows_int8.bytes()),
      "keeping the int8 spine");
}

std::string Int8Store::FilePath(const UnitLayout& unit) const {
  return absl::StrCat(folder_, "/", unit.name, ".spine");
}

// The source is known by its shards' names, sizes and times of change.
absl::StatusOr<SpineFileKey> Int8Store::Key(const UnitLayout& unit) const {
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
  return SpineFileKey{.payload_bytes = unit.int8_bytes,
                      .layout = LayoutDigest(unit),
                      .source = TextDigest(source)};
}

}  // namespace deltafin
