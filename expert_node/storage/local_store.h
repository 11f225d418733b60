// expert_node/storage/local_store.h
//
// Experts straight from a directory of released shards: direct reads past the
// page cache, checked for NaN scales, repacked to tile order. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/direct_reader.h"
#include "common/base/model_spec.h"
#include "common/base/mutex.h"
#include "common/base/safetensors.h"
#include "expert_node/storage/expert_store.h"
#include "expert_node/storage/read_rate_meter.h"
#include "expert_node/storage/released_run.h"

namespace deltafin {

class LocalStore : public ExpertStore {
 public:
  // Opens every shard and checks that every tensor of the model is there with
  // its type and shape, so that a damaged directory is refused at start.
  // Errors: those of Checkpoint and ValidateCheckpoint, naming shard and
  // tensor. `meter` is told of every read; it must outlive the store and may be
  // null.
  static absl::StatusOr<std::unique_ptr<LocalStore>> Open(
      const std::string& model_dir, const ModelSpec& spec,
      ReadRateMeter* meter = nullptr);
  ~LocalStore() override;

  const ExpertShape& shape() const override { return shape_; }

  // Gate and up rows of the run are contiguous in the shard; its down columns
  // are strided, so down is always read whole. Where the six tensors lie back
  // to back, as released, a whole expert is one read.
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override;

 private:
  LocalStore(const ModelSpec& spec, std::unique_ptr<Checkpoint> checkpoint,
             ReadRateMeter* meter);
  absl::Status OpenReaders();
  absl::StatusOr<uint64_t> ReadChecked(ExpertKey key, SliceRun run,
                                       std::span<uint8_t* const> out,
                                       absl::FunctionRef<void(int)> ready,
                                       ReleasedRun& released) const;
  absl::StatusOr<std::span<const uint8_t>> ReadSpan(
      const DirectReader& reader, uint64_t offset, uint64_t bytes,
      AlignedBuffer& buffer) const;
  std::unique_ptr<ReleasedRun> TakeIdle();

  const ModelSpec spec_;
  const ExpertShape shape_;
  const std::unique_ptr<Checkpoint> checkpoint_;
  ReadRateMeter* const meter_;
  // One for each shard with experts; read-only after Open.
  std::vector<std::unique_ptr<DirectReader>> readers_;
  absl::flat_hash_map<const SafetensorsFile*, size_t> reader_of_;
  Mutex mutex_;
  // Buffers of finished reads, for the next ones.
  std::vector<std::unique_ptr<ReleasedRun>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
