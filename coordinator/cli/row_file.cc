#include "coordinator/cli/row_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"

namespace deltafin {

RowFile::RowFile(FileDescriptor file, std::string dir, int64_t row_size)
    : file_(std::move(file)),
      dir_(std::move(dir)),
      row_(static_cast<size_t>(row_size)) {}

absl::StatusOr<RowFile> RowFile::Create(const std::string& dir, int64_t rows,
                                        int64_t row_size) {
  const uint64_t bytes = static_cast<uint64_t>(rows) *
                         static_cast<uint64_t>(row_size) * sizeof(float);
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(dir, error);
  if (!error && space.available < bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        dir, ": keeping ", rows, " rows of logits takes ",
        FormatByteSize(bytes), ", ", FormatByteSize(space.available),
        " are free; lower --max-windows or set TMPDIR"));
  }
  FileDescriptor file(open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoStatus(errno, "create a file in", dir);
  return RowFile(std::move(file), dir, row_size);
}

absl::Status RowFile::Append(std::span<const float> row) {
  const char* from = reinterpret_cast<const char*>(row.data());
  size_t left = row.size_bytes();
  while (left > 0) {
    const ssize_t n =
        pwrite(file_.get(), from, left, static_cast<off_t>(written_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoStatus(errno, "write a file in", dir_);
    from += n;
    left -= static_cast<size_t>(n);
    written_ += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const float>> RowFile::Next() {
  RETURN_IF_ERROR(ReadExactly(
      file_.get(), read_,
      {reinterpret_cast<uint8_t*>(row_.data()), row_.size() * sizeof(float)},
      dir_));
  read_ += row_.size() * sizeof(float);
  return row_;
}

}  // namespace deltafin
