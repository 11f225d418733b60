// common/base/safetensors_writer.h
//
// Writes one safetensors file. The list of tensors is fixed first, then their
// bytes come in order and in pieces of any size, so that a file larger than RAM
// can be streamed. The file appears under its name when complete.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_io.h"
#include "common/base/safetensors.h"

namespace deltafin {

class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    DType dtype = DType::kU8;
    std::vector<int64_t> shape;
  };

  // What a file of these tensors begins with: the header's length and the
  // header. Errors: as Create.
  static absl::StatusOr<std::string> HeaderBytes(
      const std::vector<Tensor>& tensors,
      const std::map<std::string, std::string>& metadata = {});

  // Writes the header. The data follows in the order of `tensors`. Errors:
  // INVALID_ARGUMENT for a repeated name or a negative or overflowing shape.
  static absl::StatusOr<SafetensorsWriter> Create(
      const std::string& path, std::vector<Tensor> tensors,
      const std::map<std::string, std::string>& metadata = {});

  // The next bytes of the data section.
  absl::Status Append(std::span<const uint8_t> bytes);
  // Renames the file into place. Errors: FAILED_PRECONDITION when bytes are
  // missing; nothing appears then.
  absl::Status Commit();

  uint64_t data_bytes() const { return data_bytes_; }

 private:
  SafetensorsWriter(AtomicFile file, std::string path, uint64_t data_bytes);

  AtomicFile file_;
  std::string path_;
  uint64_t data_bytes_ = 0;
  uint64_t written_ = 0;
};

}  // namespace deltafin
