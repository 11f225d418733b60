// expert_node/storage/spine_source.h
//
// The spine of a released model as files of its own: for each shard a
// safetensors file of its tensors that are no routed experts, byte for byte,
// read from the shard as it is asked for. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "expert_node/storage/model_source.h"
#include "expert_node/storage/shard_table.h"

namespace deltafin {

class SpineSource : public ModelSource {
 public:
  // `released` must outlive the object.
  static absl::StatusOr<std::unique_ptr<SpineSource>> Create(
      ModelSource& released, const ShardTable& table);

  const std::string& name() const override { return released_.name(); }
  // Named as the shards; their digests are not known.
  const std::vector<SourceFile>& files() const override { return files_; }
  absl::Status Read(const std::string& file, uint64_t offset,
                    std::span<uint8_t> out) override;

 private:
  // Bytes of the shard that lie together in both files.
  struct Stretch {
    uint64_t begin = 0;  // in the spine file
    uint64_t bytes = 0;
    uint64_t shard_offset = 0;
  };
  struct SpineFile {
    std::string header;
    std::vector<Stretch> stretches;  // ascending, from the header's end on
  };

  explicit SpineSource(ModelSource& released) : released_(released) {}
  absl::Status Add(const ShardLayout& shard);

  ModelSource& released_;
  std::vector<SourceFile> files_;
  std::map<std::string, SpineFile> layouts_;
};

}  // namespace deltafin
