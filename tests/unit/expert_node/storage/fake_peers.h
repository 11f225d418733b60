// tests/unit/expert_node/storage/fake_peers.h
//
// Other machines of a cluster that have generated experts, some of which lie.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "expert_node/storage/peer_store.h"
#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {

class FakePeers : public SlicePeers {
 public:
  explicit FakePeers(const ExpertShape& shape) : shape_(shape) {}

  // What FindOwners answers; by default one owner "good" of everything.
  void set_owners(std::function<std::vector<OwnedRun>(ExpertKey, SliceRun)> f) {
    MutexLock lock(mutex_);
    owners_ = std::move(f);
  }
  // How an owner fails: its call ends with this, after `after` slices.
  void Fail(const std::string& owner, absl::Status why, int after = 0) {
    MutexLock lock(mutex_);
    failures_[owner] = {std::move(why), after};
  }
  void Mend(const std::string& owner) {
    MutexLock lock(mutex_);
    failures_.erase(owner);
  }
  // Its calls wait until Open, once they were counted.
  void Hold(const std::string& owner) {
    MutexLock lock(mutex_);
    held_.insert(owner);
  }
  void Open(const std::string& owner) {
    MutexLock lock(mutex_);
    held_.erase(owner);
    changed_.NotifyAll();
  }
  // Blocks until `count` calls have come.
  void WaitForReads(size_t count) {
    MutexLock lock(mutex_);
    while (reads_.size() < count) changed_.Wait(mutex_);
  }
  // The owner changes the bytes of each slice, before or after it takes their
  // digest.
  enum class Change : uint8_t { kNone, kAfterDigest, kNanScale, kShort };
  void Tamper(const std::string& owner, Change change) {
    MutexLock lock(mutex_);
    changes_[owner] = change;
  }
  // "owner first+count" of each call.
  std::vector<std::string> reads() {
    MutexLock lock(mutex_);
    return reads_;
  }

  // What was told of each of them.
  std::vector<std::optional<uint64_t>> budgets() {
    MutexLock lock(mutex_);
    return budgets_;
  }

  absl::StatusOr<std::vector<OwnedRun>> FindOwners(ExpertKey key,
                                                   SliceRun run) override {
    MutexLock lock(mutex_);
    if (owners_) return owners_(key, run);
    return std::vector<OwnedRun>{{run, {"good"}}};
  }

  absl::Status ReadSlices(const std::string& owner, ExpertKey key, SliceRun run,
                          std::optional<uint64_t> copy_budget,
                          TakeSlice take) override {
    std::pair<absl::Status, int> failure = {absl::OkStatus(), 0};
    Change change = Change::kNone;
    {
      MutexLock lock(mutex_);
      reads_.push_back(owner + " " + std::to_string(run.first) + "+" +
                       std::to_string(run.count));
      budgets_.push_back(copy_budget);
      changed_.NotifyAll();
      while (held_.contains(owner)) changed_.Wait(mutex_);
      if (failures_.contains(owner)) failure = failures_[owner];
      change = changes_[owner];
    }
    const GeneratedExpert expert(shape_, key);
    for (int i = 0; i < run.count; ++i) {
      if (!failure.first.ok() && i == failure.second) return failure.first;
      std::vector<uint8_t> bytes = expert.Packed(run.first + i);
      if (change == Change::kNanScale) PutNan(run.first + i, bytes);
      const Xxh128 digest = Xxh3Digest(bytes);
      if (change == Change::kAfterDigest) bytes[bytes.size() / 2] ^= 1;
      if (change == Change::kShort) bytes.pop_back();
      const absl::Status taken = take(run.first + i, bytes, digest);
      if (!taken.ok()) return taken;
    }
    return absl::OkStatus();
  }

 private:
  // Where the scan looks for scales.
  void PutNan(int slice, std::vector<uint8_t>& bytes) const {
    for (uint8_t& byte : bytes) {
      const uint8_t before = std::exchange(byte, uint8_t{255});
      if (FindNanScaleInSlice(shape_, slice, bytes.data()) >= 0) return;
      byte = before;
    }
  }

  const ExpertShape shape_;
  Mutex mutex_;
  CondVar changed_;
  std::set<std::string> held_ ABSL_GUARDED_BY(mutex_);
  std::function<std::vector<OwnedRun>(ExpertKey, SliceRun)> owners_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::pair<absl::Status, int>> failures_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Change> changes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> reads_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::optional<uint64_t>> budgets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
