// expert_node/storage/shard_table.h
//
// Where every tensor of a released model lies, from its index and the first
// bytes of its shards alone. Immutable after Load.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/base/manifest.h"
#include "common/base/model_directory.h"
#include "common/base/safetensors.h"
#include "common/base/tensor_names.h"
#include "expert_node/storage/released_run.h"

namespace deltafin {

struct ShardLayout {
  std::string name;
  uint64_t bytes = 0;       // of the whole released file
  uint64_t data_begin = 0;  // where its tensors begin
  absl::flat_hash_map<std::string, TensorInfo> tensors;

  // Names of the tensors that are no routed experts, by offset.
  std::vector<std::string> SpineTensors() const;
};

// Parses the first bytes of a shard (docs/model.md section 7.1). Errors:
// INVALID_ARGUMENT naming the shard.
absl::StatusOr<ShardLayout> ParseShardHeader(const std::string& name,
                                             uint64_t shard_bytes,
                                             std::string_view header);

class ShardTable {
 public:
  // Reads the index and the headers of an installed model; the manifest tells
  // the shards' sizes. Errors: NOT_FOUND, INVALID_ARGUMENT naming the file.
  static absl::StatusOr<std::unique_ptr<ShardTable>> Load(
      const InstalledPaths& paths, const Manifest& manifest);

  // Sorted by name.
  const std::vector<ShardLayout>& shards() const { return shards_; }

  // Place::file indexes shards(). Errors: NOT_FOUND; INVALID_ARGUMENT for
  // another type or shape, naming shard and tensor.
  absl::StatusOr<ReleasedRun::Place> Find(const TensorSpec& tensor) const;

 private:
  ShardTable() = default;

  std::vector<ShardLayout> shards_;
  absl::flat_hash_map<std::string, uint32_t> shard_of_;  // text tensors
};

}  // namespace deltafin
