// expert_node/storage/source_store.h
//
// Experts from where the model was released: one range of a shard for an
// expert, checked for NaN scales, packed into tiles. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/model_spec.h"
#include "common/base/mutex.h"
#include "expert_node/storage/expert_store.h"
#include "expert_node/storage/model_source.h"
#include "expert_node/storage/released_run.h"
#include "expert_node/storage/shard_table.h"

namespace deltafin {

// Reaches a source, at the first read: what is installed needs none. Called
// again after an error; by one thread at a time.
struct ExpertSource {
  std::shared_ptr<ModelSource> source;
  std::shared_ptr<const ShardTable> table;
};
using ExpertSourceOpener = std::function<absl::StatusOr<ExpertSource>()>;

class SourceStore : public ExpertStore {
 public:
  SourceStore(const ModelSpec& spec, ExpertSourceOpener open);
  ~SourceStore() override;

  const ExpertShape& shape() const override { return shape_; }

  // One read of the source for a whole expert that lies back to back, as
  // released. Errors: also those of the opener and of ModelSource::Read, after
  // "layer L expert E".
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override;

 private:
  absl::StatusOr<ExpertSource> Source();
  absl::StatusOr<uint64_t> ReadFrom(const ExpertSource& from, ExpertKey key,
                                    SliceRun run, std::span<uint8_t* const> out,
                                    absl::FunctionRef<void(int)> ready);
  std::unique_ptr<ReleasedRun> TakeIdle();

  const ModelSpec spec_;
  const ExpertShape shape_;
  const ExpertSourceOpener open_;
  Mutex opening_mutex_;
  ExpertSource source_ ABSL_GUARDED_BY(opening_mutex_);
  Mutex mutex_;
  // Buffers of finished reads, for the next ones.
  std::vector<std::unique_ptr<ReleasedRun>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
