#include "expert_node/storage/record_index.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// 4 million entries of the full model: far more than compaction lets live.
constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;

absl::Status WriteExactly(int fd, uint64_t offset, std::string_view bytes,
                          const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus(errno, "write", path);
    bytes.remove_prefix(put);
    offset += put;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RecordIndex> RecordIndex::Open(
    const std::string& path, const RecordIndexHeader& header,
    std::vector<RecordEntry>& entries) {
  RecordIndex index(path, header);
  entries.clear();
  const absl::StatusOr<std::string> bytes = ReadFile(path, kMaxIndexBytes);
  if (absl::IsNotFound(bytes.status())) return index;
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<RecordIndexContents> contents = ParseRecordIndex(
      {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
  if (!contents.ok()) return AddContext(contents.status(), path);
  RETURN_IF_ERROR(AddContext(CheckSameRecords(contents->header, header), path));
  for (const uint64_t offset : contents->damaged) {
    spdlog::warn(
        "{}: the entry at offset {} is damaged; what it named counts as "
        "missing",
        path, offset);
  }
  if (contents->good_bytes < bytes->size()) {
    spdlog::warn("{}: the last entry, at offset {}, was cut short; it is left",
                 path, contents->good_bytes);
  }
  index.end_ = contents->good_bytes;
  index.num_damaged_ = contents->damaged.size();
  entries = std::move(contents->entries);
  return index;
}

absl::Status RecordIndex::OpenForAppending() {
  if (end_ == 0) RETURN_IF_ERROR(Rewrite({}));
  if (fd_.valid()) return absl::OkStatus();
  FileDescriptor fd(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open for writing", path_);
  // What was torn must not lie behind the next entry.
  if (ftruncate(fd.get(), static_cast<off_t>(end_)) != 0) {
    return ErrnoStatus(errno, "truncate", path_);
  }
  fd_ = std::move(fd);
  return absl::OkStatus();
}

absl::Status RecordIndex::Append(const RecordEntry& entry) {
  RETURN_IF_ERROR(OpenForAppending());
  const std::string bytes = EncodeRecordEntry(header_, entry);
  absl::Status status = WriteExactly(fd_.get(), end_, bytes, path_);
  if (status.ok() && fdatasync(fd_.get()) != 0) {
    status = ErrnoStatus(errno, "sync", path_);
  }
  if (!status.ok()) {
    fd_ = FileDescriptor();  // opened again, it is cut at end_
    return status;
  }
  end_ += bytes.size();
  return absl::OkStatus();
}

absl::Status RecordIndex::Rewrite(std::span<const RecordEntry> entries) {
  std::string bytes = EncodeRecordHeader(header_);
  for (const RecordEntry& entry : entries) {
    bytes += EncodeRecordEntry(header_, entry);
  }
  RETURN_IF_ERROR(WriteFileAtomically(path_, bytes));
  fd_ = FileDescriptor();
  end_ = bytes.size();
  return absl::OkStatus();
}

}  // namespace deltafin
