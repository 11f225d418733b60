// expert_node/storage/shard_digest.h
//
// A released shard put together again from what was installed of it: the proof
// that nothing was changed on the way.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/model_directory.h"
#include "common/base/model_spec.h"
#include "expert_node/storage/record_reader.h"
#include "expert_node/storage/shard_table.h"

namespace deltafin {

// SHA-256 (hex) of the shard's header, its spine tensors and its experts,
// unpacked from their records, in the order of the file. `records` has a reader
// for each layer whose index could be read. `advance` is told of the bytes as
// they come; an error of it ends the reading with it. Blocks on disk. Errors:
// NOT_FOUND when not all experts of the shard are held; DATA_LOSS; those of
// files.
absl::StatusOr<std::string> DigestOfInstalledShard(
    const ModelSpec& spec, const InstalledPaths& paths,
    const ShardLayout& shard, const std::map<int, RecordReader>& records,
    const std::function<absl::Status(uint64_t)>& advance);

}  // namespace deltafin
