#include "expert_node/storage/directory_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/model_directory.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<SourceFile>> ListFiles(const std::string& dir) {
  std::vector<SourceFile> files;
  std::error_code error;
  fs::directory_iterator entries(dir, error);
  if (error) return ErrnoStatus(error.value(), "list", dir);
  for (const fs::directory_entry& entry : entries) {
    if (!entry.is_regular_file(error)) continue;
    const uint64_t bytes = entry.file_size(error);
    if (error) return ErrnoStatus(error.value(), "look at", entry.path());
    files.push_back({entry.path().filename().string(), bytes, ""});
  }
  std::ranges::sort(files, {}, &SourceFile::name);
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectorySource>> DirectorySource::Open(
    const std::string& dir) {
  ASSIGN_OR_RETURN(std::vector<SourceFile> files, ListFiles(dir));
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(dir));
  if (layout == ModelLayout::kInstalled) {
    return absl::InvalidArgumentError(
        dir +
        " is an installed model; give the directory of released files it came "
        "from, or copy it as it is");
  }
  std::error_code error;
  std::string name = fs::canonical(dir, error).string();
  if (error) return ErrnoStatus(error.value(), "resolve", dir);
  return std::unique_ptr<DirectorySource>(
      new DirectorySource(std::move(name), std::move(files)));
}

absl::Status DirectorySource::Read(const std::string& file, uint64_t offset,
                                   std::span<uint8_t> out) {
  const std::string path = name_ + "/" + file;
  const auto known =
      std::ranges::lower_bound(files_, file, {}, &SourceFile::name);
  if (known == files_.end() || known->name != file) {
    return absl::NotFoundError(path + " does not exist");
  }
  if (offset > known->bytes || out.size() > known->bytes - offset) {
    return absl::OutOfRangeError(
        fmt::format("{}: bytes {} to {} of a file of {}", path, offset,
                    offset + out.size(), known->bytes));
  }
  ASSIGN_OR_RETURN(const int fd, DescriptorOf(*known));
  return ReadExactly(fd, offset, out, path);
}

absl::StatusOr<int> DirectorySource::DescriptorOf(const SourceFile& file) {
  const std::string path = name_ + "/" + file.name;
  MutexLock lock(mutex_);
  FileDescriptor& descriptor = descriptors_[file.name];
  if (!descriptor.valid()) {
    ASSIGN_OR_RETURN(descriptor, OpenForReading(path));
    ASSIGN_OR_RETURN(const uint64_t bytes, FileSize(descriptor.get(), path));
    if (bytes != file.bytes) {
      descriptor = FileDescriptor();
      return absl::DataLossError(
          fmt::format("{} had {} bytes and has {} now: it changed", path,
                      file.bytes, bytes));
    }
  }
  return descriptor.get();
}

}  // namespace deltafin
