#include "expert_node/storage/install_plan.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/base/file_io.h"
#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"
#include "common/base/tensor_names.h"
#include "expert_node/storage/record_index_format.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

// A tensor's entry in a shard's header: 152 bytes on average in the released
// shards (docs/model.md section 7.2).
constexpr uint64_t kHeaderBytesPerTensor = 200;

uint64_t BytesOnDrive(const std::string& dir) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; it != end;
       it.increment(error)) {
    struct stat info;
    if (lstat(it->path().c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      bytes += uint64_t{512} * info.st_blocks;  // records may have holes
    }
    if (error) break;
  }
  return bytes;
}

}  // namespace

uint64_t InstallPlan::total_bytes() const {
  return metadata_bytes + spine_bytes +
         (experts == InstallOrigin::Experts::kAll ? expert_bytes : 0);
}

uint64_t InstallPlan::missing_bytes() const {
  const uint64_t total = total_bytes();
  return total - std::min(total, present_bytes);
}

std::string InstallPlan::Text(const std::string& dir) const {
  std::string text =
      fmt::format("{} needs {} of the drive: {} of small files, {} of spine",
                  dir, FormatByteSize(total_bytes()),
                  FormatByteSize(metadata_bytes), FormatByteSize(spine_bytes));
  if (experts == InstallOrigin::Experts::kAll) {
    text += fmt::format(", {} of experts", FormatByteSize(expert_bytes));
  } else {
    text += fmt::format("; experts come as they are used, up to {} more",
                        FormatByteSize(expert_bytes));
  }
  if (present_bytes > 0) {
    text += fmt::format("; {} are there", FormatByteSize(present_bytes));
  }
  return text + fmt::format("; {} are free, {} of them stay free",
                            FormatByteSize(free_bytes),
                            FormatByteSize(reserve_bytes));
}

absl::Status InstallPlan::Check(const std::string& dir) const {
  if (missing_bytes() + reserve_bytes <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{} ({} bytes to come and {} in reserve against {} free): free some "
      "space, choose another folder{}",
      Text(dir), missing_bytes(), reserve_bytes, free_bytes,
      experts == InstallOrigin::Experts::kAll
          ? ", or install with --stream and let experts come on demand"
          : ""));
}

InstallPlan PlanInstall(const ModelSpec& spec, uint64_t small_files_bytes,
                        InstallOrigin::Experts experts) {
  InstallPlan plan;
  plan.experts = experts;
  uint64_t num_tensors = 0;
  const auto add = [&](const std::vector<TensorSpec>& tensors) {
    num_tensors += tensors.size();
    for (const TensorSpec& tensor : tensors) plan.spine_bytes += tensor.bytes();
  };
  add(GlobalTensors(spec));
  const uint64_t num_experts = spec.num_experts;
  const ExpertShape shape = spec.expert_shape();
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    add(LayerTensors(spec, layer));
    if (!spec.is_moe(layer)) continue;
    num_tensors += 6 * num_experts;
    plan.expert_bytes +=
        num_experts * (shape.stride_bytes() + RecordEntryBytes(shape));
  }
  plan.metadata_bytes = small_files_bytes + num_tensors * kHeaderBytesPerTensor;
  return plan;
}

absl::Status MeasureDrive(const std::string& dir, InstallPlan& plan) {
  std::error_code error;
  fs::path existing = fs::absolute(dir, error);
  while (!fs::exists(existing, error) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  const fs::space_info space = fs::space(existing, error);
  if (error) {
    return ErrnoStatus(error.value(), "look for free space in",
                       existing.string());
  }
  plan.free_bytes = space.available;
  plan.present_bytes = BytesOnDrive(dir);
  return absl::OkStatus();
}

}  // namespace deltafin
