// The end of an installation: is it what was released?

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/file_io.h"
#include "common/base/log.h"
#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"
#include "common/base/tensor_names.h"
#include "expert_node/storage/model_installer.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxListBytes = uint64_t{16} << 20;

// What DIR/compared says; nothing where it cannot be read.
std::set<std::string> ReadCompared(const InstalledPaths& paths) {
  const absl::StatusOr<std::string> text =
      ReadFile(paths.compared(), kMaxListBytes);
  if (!text.ok()) return {};
  const std::vector<std::string> names =
      absl::StrSplit(*text, '\n', absl::SkipEmpty());
  return {names.begin(), names.end()};
}

absl::Status WriteCompared(const InstalledPaths& paths,
                           const std::set<std::string>& shards) {
  return WriteFileAtomically(paths.compared(),
                             absl::StrJoin(shards, "\n") + "\n");
}

absl::Status RemoveFile(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) return ErrnoStatus(error.value(), "remove", path);
  return absl::OkStatus();
}

// Packed spine files are made of the shards' bytes and know them by size and
// time alone.
absl::Status RemovePackedSpines(const std::string& dir) {
  for (const char* name : {"/deltafin-spine-int8", "/deltafin-spine-bf16"}) {
    std::error_code error;
    fs::remove_all(dir + name, error);
    if (error) return ErrnoStatus(error.value(), "remove", dir + name);
  }
  return absl::OkStatus();
}

// Calls found(key, shard) for each shard that has a tensor of a routed expert.
template <typename Found>
absl::Status ForEachExpert(const ModelSpec& spec, const ShardTable& table,
                           Found found) {
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    if (!spec.is_moe(layer)) continue;
    for (int expert = 0; expert < spec.num_experts; ++expert) {
      const ExpertKey key{layer, expert};
      for (const TensorSpec& tensor : ExpertTensors(spec, key)) {
        ASSIGN_OR_RETURN(const ReleasedRun::Place place, table.Find(tensor));
        RETURN_IF_ERROR(found(key, table.shards()[place.file].name));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ShardDifference>> ModelInstaller::FindDifferences() {
  const bool all = opened_.origin.experts == InstallOrigin::Experts::kAll;
  if (!all && !options_.check_experts) return std::vector<ShardDifference>();
  ASSIGN_OR_RETURN(const Manifest manifest,
                   ManifestOfDirectory(paths_.dir(), "", {}));
  std::set<std::string> compared = ReadCompared(paths_);
  uint64_t total = 0;
  for (const ManifestEntry& entry : manifest.entries) {
    if (!entry.file.ends_with(".safetensors")) continue;
    if (!compared.contains(entry.file)) total += entry.bytes;
  }
  if (total == 0) return std::vector<ShardDifference>();
  spdlog::info("comparing {} with the released SHA-256", FormatByteSize(total));
  uint64_t done = 0;
  ShardComparisonOptions options;
  options.threads =
      std::clamp<int>(static_cast<int>(std::thread::hardware_concurrency()), 1,
                      options_.parallel);
  options.wanted = [before = compared](const std::string& shard) {
    return !before.contains(shard);
  };
  options.advance = [&](uint64_t bytes) {
    done += bytes;
    Tell("comparing with what was released", done, total);
    return CheckCancelled();
  };
  options.same = [&](const std::string& shard) {
    compared.insert(shard);
    return WriteCompared(paths_, compared);
  };
  return CompareShards(spec_, paths_, manifest, options);
}

absl::Status ModelInstaller::DropShards(
    std::span<const ShardDifference> shards) {
  ASSIGN_OR_RETURN(const Manifest manifest,
                   ManifestOfDirectory(paths_.dir(), "", {}));
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardTable> table,
                   ShardTable::Load(paths_, manifest));
  // Unfinished from here on, so that nothing of them is used.
  RETURN_IF_ERROR(RemoveFile(paths_.files()));
  refetched_.clear();
  RETURN_IF_ERROR(RemovePackedSpines(paths_.dir()));
  std::set<std::string> names;
  for (const ShardDifference& shard : shards) {
    spdlog::warn("{} {}; fetching it again", shard.shard, shard.problem);
    names.insert(shard.shard);
  }
  RecordStoreOptions record_options;
  record_options.program = "deltafin setup";
  ASSIGN_OR_RETURN(const std::unique_ptr<RecordStore> records,
                   RecordStore::Open(paths_.experts_folder(),
                                     RecordModel::Of(spec_, manifest.Digest()),
                                     record_options));
  const SliceRun all_slices{0, spec_.expert_shape().num_slices()};
  RETURN_IF_ERROR(ForEachExpert(
      spec_, *table,
      [&](ExpertKey key, const std::string& shard) -> absl::Status {
        if (!names.contains(shard) || records->HeldMask(key) == 0) {
          return absl::OkStatus();
        }
        return records->Remove(key, all_slices);
      }));
  for (const std::string& name : names) {
    RETURN_IF_ERROR(RemoveFile(paths_.spine_folder() + "/" + name));
    RETURN_IF_ERROR(RemoveFile(paths_.header(name)));
  }
  return absl::OkStatus();
}

absl::Status ModelInstaller::CompareAllAgain() {
  return RemoveFile(paths_.compared());
}

absl::Status ModelInstaller::ForgetIncompleteShards(const RecordStore& records,
                                                    const ShardTable& table) {
  std::set<std::string> compared = ReadCompared(paths_);
  const size_t before = compared.size();
  if (before == 0) return absl::OkStatus();
  const SliceRun all_slices{0, spec_.expert_shape().num_slices()};
  RETURN_IF_ERROR(ForEachExpert(
      spec_, table,
      [&](ExpertKey key, const std::string& shard) -> absl::Status {
        if (!records.Holds(key, all_slices)) compared.erase(shard);
        return absl::OkStatus();
      }));
  if (compared.size() == before) return absl::OkStatus();
  return WriteCompared(paths_, compared);
}

}  // namespace deltafin
