// coordinator/cli/logits_dump.h
//
// The file of --dump-logits: one f32 tensor `logits` [rows, V] in safetensors
// format, row i the logits after position i. Rows are streamed; their number is
// known only at the end, so the header is written last into its reserved place.
// The file appears under its name when complete. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/digest.h"
#include "common/base/file_io.h"

namespace deltafin {

class LogitsDump {
 public:
  // Errors name the path.
  static absl::StatusOr<LogitsDump> Create(const std::string& path,
                                           int64_t vocab_size);

  // The next row, [V]. Blocks on disk.
  absl::Status Append(std::span<const float> row);
  // Writes the header and renames the file into place.
  absl::Status Commit();

  int64_t rows() const { return rows_; }

 private:
  LogitsDump(AtomicFile file, int64_t vocab_size)
      : file_(std::move(file)), vocab_size_(vocab_size) {}

  AtomicFile file_;
  int64_t vocab_size_;
  int64_t rows_ = 0;
};

// Feeds the rows of a finished dump, f32 little-endian, to `hash`.
absl::Status HashDumpedRows(const std::string& path, Sha256& hash);

}  // namespace deltafin
