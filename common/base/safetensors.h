// common/base/safetensors.h
//
// Reading a sharded safetensors checkpoint: headers are parsed and checked,
// tensor bytes are read on demand by offset. Foreign bytes: every length,
// offset, shape and dtype is range-checked; errors name file and tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin {

enum class DType : uint8_t { kBf16, kF32, kU8, kI8, kU16, kI64, kF64 };
size_t DTypeSize(DType dtype);
std::string_view DTypeName(DType dtype);

struct TensorInfo {
  DType dtype = DType::kU8;
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // in the file, absolute
  uint64_t bytes = 0;
};

// One file. Thread-safe after Open (reads use pread).
class SafetensorsFile {
 public:
  // Errors: NOT_FOUND; INVALID_ARGUMENT for a malformed, overlapping, truncated
  // or oversized header.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(
      const std::string& path);
  // Parses header bytes alone (fuzz target). `file_bytes` is the size of the
  // whole file.
  static absl::StatusOr<absl::flat_hash_map<std::string, TensorInfo>>
  ParseHeader(std::string_view header_json, uint64_t data_begin,
              uint64_t file_bytes);
  ~SafetensorsFile();

  const std::string& path() const;
  int fd() const;  // open for reading, owned by this object
  const absl::flat_hash_map<std::string, TensorInfo>& tensors() const;
  const TensorInfo* Find(std::string_view name) const;
  // Reads bytes [begin, begin + out.size()) of the tensor. Blocks on disk.
  // Errors: OUT_OF_RANGE, DATA_LOSS on a short read.
  absl::Status Read(const TensorInfo& tensor, uint64_t begin,
                    std::span<uint8_t> out) const;

 private:
  SafetensorsFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct TensorLocation {
  const SafetensorsFile* file = nullptr;
  const TensorInfo* info = nullptr;
};

// A directory: config.json, model.safetensors.index.json and its shards, or one
// model.safetensors without an index; or an installed model
// (docs/installed_model.md), which has no routed experts here. Shards open on
// first use. Thread-safe.
class Checkpoint {
 public:
  // Reads and checks the index; a shard named there that does not exist is
  // NOT_FOUND naming it and a tensor in it. Tensors under `vision_tower.` and
  // `mm_projector.` are skipped; any other prefix than `language_model.` is
  // refused.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(
      const std::string& model_dir);
  // Parses the index alone (fuzz target): text tensor -> shard, a plain file
  // name.
  static absl::StatusOr<absl::flat_hash_map<std::string, std::string>>
  ParseIndex(std::string_view index_json);
  ~Checkpoint();

  const std::string& model_dir() const;
  // False for an installed model: its experts lie elsewhere.
  bool has_experts() const;
  bool Has(std::string_view tensor) const;
  // Finds a tensor and checks dtype and shape. Errors: NOT_FOUND /
  // INVALID_ARGUMENT naming shard and tensor, expected and found.
  absl::StatusOr<TensorLocation> Find(std::string_view tensor, DType dtype,
                                      std::span<const int64_t> shape) const;
  // Find and read whole into `out` (out.size() bytes must match).
  absl::Status ReadTensor(std::string_view tensor, DType dtype,
                          std::span<const int64_t> shape,
                          std::span<uint8_t> out) const;
  // Sorted names of the shard files that hold text tensors.
  std::vector<std::string> shards() const;
  // Sorted names of the text tensors.
  std::vector<std::string> tensors() const;

 private:
  Checkpoint();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin
