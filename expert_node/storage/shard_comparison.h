// expert_node/storage/shard_comparison.h
//
// Whether what was installed is what was released: shards put together again,
// several at once, and compared with the SHA-256 that the manifest tells.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/manifest.h"
#include "common/base/model_directory.h"
#include "common/base/model_spec.h"

namespace deltafin {

struct ShardDifference {
  std::string shard;
  std::string problem;  // "put together again is not what was released: ..."
};

struct ShardComparisonOptions {
  // Shards at once; one takes a thread with its SHA-256.
  int threads = 1;
  // Which shards are compared; empty: all.
  std::function<bool(const std::string& shard)> wanted;
  // Told of bytes read and of shards that are as released, by one thread at a
  // time; an error ends the comparison with it. Either may be empty.
  std::function<absl::Status(uint64_t bytes)> advance;
  std::function<absl::Status(const std::string& shard)> same;
};

// Shards that differ or cannot be read, by name. Those whose experts are not
// all here are left out. Changes nothing, uses no network, blocks on disk.
// Errors: those of the headers of the shards; of the callbacks.
absl::StatusOr<std::vector<ShardDifference>> CompareShards(
    const ModelSpec& spec, const InstalledPaths& paths,
    const Manifest& manifest, const ShardComparisonOptions& options);

}  // namespace deltafin
