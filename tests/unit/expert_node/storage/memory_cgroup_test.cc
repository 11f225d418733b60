// The expert tier in a real memory cgroup, of version 1 or 2, that is squeezed
// while it serves. Needs the right to make one; is skipped without.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "expert_node/storage/memory_governor.h"
#include "expert_node/storage/tiered_store.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr ExpertShape kShape = {3584, 3072};  // 17.5 MB, as the full model's
constexpr int kNumExperts = 24;               // 402 MiB
constexpr uint64_t kTierBytes = 420 * kMiB;
constexpr uint64_t kWideBytes = 700 * kMiB;
constexpr uint64_t kTightBytes = 300 * kMiB;
constexpr absl::Duration kRecovery = absl::Seconds(10);

// Exit codes of the process in the group.
constexpr int kGood = 0;
constexpr int kNeverFilled = 3;
constexpr int kNoRecovery = 4;
constexpr int kNeverGrew = 5;
constexpr int kWrongBytes = 6;
constexpr int kCannotSqueeze = 7;

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

// A group below this process's own, or where version 2 lets it have none (it
// holds processes), below the root.
class MemoryGroup {
 public:
  static std::unique_ptr<MemoryGroup> Make() {
    std::ifstream file("/proc/self/cgroup");
    std::string line;
    while (std::getline(file, line)) {
      const bool is_v2 = line.starts_with("0::");
      if (!is_v2 && line.find(":memory:") == std::string::npos) continue;
      const std::string own = line.substr(line.rfind(':') + 1);
      std::vector<std::string> parents = {own == "/" ? "" : own};
      if (is_v2 && own != "/") parents.push_back("");
      for (const std::string& parent : parents) {
        auto group = std::unique_ptr<MemoryGroup>(new MemoryGroup(
            fmt::format("/sys/fs/cgroup{}{}/deltafin-test-{}",
                        is_v2 ? "" : "/memory", parent, getpid()),
            is_v2));
        if (group->is_made_ && group->SetLimit(kWideBytes)) return group;
      }
    }
    return nullptr;
  }
  ~MemoryGroup() {
    if (is_made_) rmdir(path_.c_str());
  }

  // The hard limit of version 1, the soft one of version 2: a hard limit below
  // what is taken would kill.
  bool SetLimit(uint64_t bytes) const {
    return Write(path_ + (is_v2_ ? "/memory.high" : "/memory.limit_in_bytes"),
                 std::to_string(bytes));
  }
  bool Enter() const {
    return Write(path_ + "/cgroup.procs", std::to_string(getpid()));
  }

 private:
  MemoryGroup(std::string path, bool is_v2)
      : path_(std::move(path)), is_v2_(is_v2) {
    is_made_ = mkdir(path_.c_str(), 0755) == 0;
  }

  const std::string path_;
  const bool is_v2_;
  bool is_made_ = false;
};

// Every byte of an expert is its number.
class NumberedStore : public ExpertStore {
 public:
  const ExpertShape& shape() const override { return kShape; }
  absl::StatusOr<uint64_t> Read(ExpertKey key, SliceRun run,
                                std::span<uint8_t* const> out,
                                absl::FunctionRef<void(int)> ready) override {
    for (int i = 0; i < run.count; ++i) {
      std::memset(out[i], key.expert, kShape.slice_offset(1));
      ready(run.first + i);
    }
    return kShape.slice_offset(1) * run.count;
  }
};

class Server {
 public:
  Server() {
    auto tier =
        TieredStore::Create(std::make_unique<NumberedStore>(), {kTierBytes});
    if (!tier.ok()) _exit(kNeverFilled);
    tier_ = *std::move(tier);
    governor_ =
        std::make_unique<MemoryGovernor>(*tier_, MemoryReserveOf(kTierBytes));
  }

  // Uses experts [0, count), twice; the hits of the second time.
  double HitRate(int count) {
    UseAll(count);
    const TieredStoreStats before = tier_->stats();
    UseAll(count);
    const TieredStoreStats after = tier_->stats();
    const uint64_t hits = after.hits - before.hits;
    return static_cast<double>(hits) /
           static_cast<double>(hits + after.misses - before.misses);
  }
  // Uses them until every one is a hit. False when that takes too long.
  bool Recovers(int count) {
    const absl::Time deadline = absl::Now() + kRecovery;
    while (absl::Now() < deadline) {
      if (HitRate(count) == 1) return true;
    }
    return false;
  }
  uint64_t capacity() const { return tier_->stats().capacity_bytes; }

 private:
  void UseAll(int count) {
    for (int e = 0; e < count; ++e) {
      std::vector<SliceKey> wanted;
      for (int s = 0; s < kShape.num_slices(); ++s) {
        wanted.push_back({{1, e}, s});
      }
      const auto lease = tier_->Acquire(wanted);
      for (const int i : lease->order()) {
        const auto bytes = lease->Wait(i);
        if (!bytes.ok() || (*bytes)[4096] != e) _exit(kWrongBytes);
        lease->Release(i);
      }
    }
  }

  std::unique_ptr<TieredStore> tier_;
  std::unique_ptr<MemoryGovernor> governor_;
};

// Full in a wide group, squeezed to where two thirds must go, and wide again.
int RunInGroup(const MemoryGroup& group) {
  if (!group.Enter()) return kCannotSqueeze;
  Server server;
  if (!server.Recovers(kNumExperts)) return kNeverFilled;
  // Version 1 refuses a limit below what cannot be reclaimed, so both are
  // lowered as fast as the tier gives way.
  uint64_t limit = kWideBytes;
  const absl::Time deadline = absl::Now() + kRecovery;
  while (limit > kTightBytes) {
    if (absl::Now() > deadline) return kCannotSqueeze;
    server.HitRate(8);
    const auto headroom = MemoryHeadroom();
    if (!headroom.ok()) return kCannotSqueeze;
    if (*headroom < static_cast<int64_t>(30 * kMiB)) continue;
    const uint64_t next = std::max(limit - 20 * kMiB, kTightBytes);
    if (group.SetLimit(next)) limit = next;
  }
  if (!server.Recovers(8)) return kNoRecovery;
  if (server.capacity() >= kTightBytes) return kNoRecovery;
  if (!group.SetLimit(kWideBytes)) return kCannotSqueeze;
  return server.Recovers(kNumExperts) ? kGood : kNeverGrew;
}

TEST(MemoryCgroupTest, HitsRecoverWithinTenSecondsOfASqueeze) {
  const std::unique_ptr<MemoryGroup> group = MemoryGroup::Make();
  if (group == nullptr) {
    GTEST_SKIP() << "no memory cgroup may be made here";
  }
  const pid_t child = fork();  // this process has no threads yet
  ASSERT_GE(child, 0);
  if (child == 0) _exit(RunInGroup(*group));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kGood);
}

}  // namespace
}  // namespace deltafin
