#include "expert_node/storage/shard_comparison.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/thread_affinity.h"
#include "expert_node/storage/record_reader.h"
#include "expert_node/storage/shard_digest.h"
#include "expert_node/storage/shard_table.h"

namespace deltafin {
namespace {

class ShardComparer {
 public:
  ShardComparer(const ModelSpec& spec, const InstalledPaths& paths,
                const Manifest& manifest, const ShardComparisonOptions& options)
      : spec_(spec), paths_(paths), manifest_(manifest), options_(options) {}

  absl::StatusOr<std::vector<ShardDifference>> Run() {
    ASSIGN_OR_RETURN(table_, ShardTable::Load(paths_, manifest_));
    OpenRecords();
    const size_t num_threads =
        std::clamp<size_t>(options_.threads, 1, table_->shards().size() + 1);
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < num_threads; ++i) {
      threads.emplace_back([this] {
        SetThreadName("shard-digest");
        CompareUntilDone();
      });
    }
    threads.clear();  // joins
    MutexLock lock(mutex_);
    if (!status_.ok()) return status_;
    std::ranges::sort(differences_, {}, &ShardDifference::shard);
    return std::move(differences_);
  }

 private:
  // What cannot be opened holds no experts.
  void OpenRecords() {
    const std::string digest = manifest_.Digest();
    for (int layer = 0; layer < spec_.num_hidden_layers; ++layer) {
      if (!spec_.is_moe(layer)) continue;
      absl::StatusOr<RecordReader> reader = RecordReader::Open(
          paths_.experts_folder(),
          {layer, spec_.expert_shape(), spec_.num_experts, digest});
      if (reader.ok()) records_.emplace(layer, *std::move(reader));
    }
  }

  void CompareUntilDone() {
    while (const ShardLayout* shard = TakeShard()) {
      const absl::StatusOr<std::string> sha256 = DigestOfInstalledShard(
          spec_, paths_, *shard, records_, [this](uint64_t bytes) {
            MutexLock lock(mutex_);
            return Advance(bytes);
          });
      Conclude(shard->name, sha256);
    }
  }

  // Null when there is none left, or an error.
  const ShardLayout* TakeShard() {
    MutexLock lock(mutex_);
    while (status_.ok() && next_ < table_->shards().size()) {
      const ShardLayout& shard = table_->shards()[next_++];
      if (!options_.wanted || options_.wanted(shard.name)) return &shard;
    }
    return nullptr;
  }

  absl::Status Advance(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (status_.ok() && options_.advance) status_ = options_.advance(bytes);
    return status_;
  }

  void Conclude(const std::string& shard,
                const absl::StatusOr<std::string>& sha256) {
    const auto entry =
        std::ranges::find(manifest_.entries, shard, &ManifestEntry::file);
    MutexLock lock(mutex_);
    if (!status_.ok() || absl::IsNotFound(sha256.status())) return;
    if (sha256.ok() && *sha256 == entry->sha256) {
      if (options_.same) status_ = options_.same(shard);
      return;
    }
    differences_.push_back(
        {shard,
         fmt::format(
             "put together again is not what was released: {} "
             "instead of the SHA-256 {}",
             sha256.ok() ? *sha256 : std::string(sha256.status().message()),
             entry->sha256)});
  }

  const ModelSpec& spec_;
  const InstalledPaths& paths_;
  const Manifest& manifest_;
  const ShardComparisonOptions& options_;
  std::unique_ptr<ShardTable> table_;
  std::map<int, RecordReader> records_;  // by layer
  Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<ShardDifference> differences_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::vector<ShardDifference>> CompareShards(
    const ModelSpec& spec, const InstalledPaths& paths,
    const Manifest& manifest, const ShardComparisonOptions& options) {
  return ShardComparer(spec, paths, manifest, options).Run();
}

}  // namespace deltafin
