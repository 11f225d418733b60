// expert_node/storage/staged_source.h
//
// A source of whole experts that is read once for all machines that keep parts
// of them: what one asks for is fetched with the rest of its expert, and the
// rest waits in memory, bounded, for the others. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "absl/status/statusor.h"
#include "common/base/aligned_buffer.h"
#include "common/base/mutex.h"
#include "expert_node/storage/expert_store.h"

namespace deltafin {

struct StagedSourceStats {
  uint64_t fetches = 0;  // of whole experts
  uint64_t bytes_fetched = 0;
  uint64_t staged_bytes = 0;      // memory, now
  uint64_t slices_discarded = 0;  // fetched for others, who did not come
};

class StagedSource : public ExpertStore {
 public:
  enum class Given : uint8_t {
    kForgotten,  // who was given a slice has it now
    kKept,       // others ask before it is known who has it
  };

  // `capacity_bytes` of experts that wait; at least one is kept. The oldest
  // gives way.
  StagedSource(std::unique_ptr<ExpertStore> source, uint64_t capacity_bytes,
               Given given = Given::kForgotten);
  ~StagedSource() override;

  const ExpertShape& shape() const override { return source_->shape(); }
  bool IsNear(ExpertKey key, SliceRun run) const override;

  // From memory, or with one read of the source for the whole expert; one
  // reader of an expert fetches, others wait for it. Errors: those of the
  // source.
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override;

  // What waits in memory.
  ExpertStore& held() override { return *staged_; }
  uint64_t HeldMask(ExpertKey key) const override;
  uint64_t held_version() const override;

  StagedSourceStats stats() const;

 private:
  class Staged;
  struct Waiting {
    std::shared_ptr<const AlignedBuffer> record;
    uint64_t mask = 0;  // bit s: slice s is kept
  };

  // Gives the run from memory if it is all there.
  bool TryTake(ExpertKey key, SliceRun run, std::span<uint8_t* const> out);
  absl::StatusOr<uint64_t> Fetch(ExpertKey key, SliceRun run,
                                 std::span<uint8_t* const> out);
  void Stage(ExpertKey key, std::shared_ptr<const AlignedBuffer> record,
             uint64_t mask) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(ExpertKey key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CopyOut(const AlignedBuffer& record, SliceRun run,
               std::span<uint8_t* const> out) const;

  const std::unique_ptr<ExpertStore> source_;
  const uint64_t capacity_bytes_;
  const Given given_;
  std::unique_ptr<ExpertStore> staged_;
  mutable Mutex mutex_;
  CondVar fetched_;
  std::set<ExpertKey> fetching_ ABSL_GUARDED_BY(mutex_);
  std::map<ExpertKey, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<ExpertKey> oldest_ ABSL_GUARDED_BY(mutex_);  // of waiting_
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 1;
  StagedSourceStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
