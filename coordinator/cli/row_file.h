// coordinator/cli/row_file.h
//
// Logits of one spine kept on disk while another is measured: two spines of a
// large model do not fit into memory together. The file has no name and goes
// with the object. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_io.h"

namespace deltafin {

class RowFile {
 public:
  // A file in `dir` for `rows` rows of `row_size` floats. Errors:
  // RESOURCE_EXHAUSTED with the numbers when the disk has no room for it.
  static absl::StatusOr<RowFile> Create(const std::string& dir, int64_t rows,
                                        int64_t row_size);

  absl::Status Append(std::span<const float> row);
  // The rows in the order they were appended, from the first one on; valid
  // until the next call.
  absl::StatusOr<std::span<const float>> Next();

 private:
  RowFile(FileDescriptor file, std::string dir, int64_t row_size);

  FileDescriptor file_;
  std::string dir_;
  std::vector<float> row_;
  uint64_t written_ = 0;  // bytes
  uint64_t read_ = 0;
};

}  // namespace deltafin
