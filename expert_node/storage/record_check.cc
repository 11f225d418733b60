#include "expert_node/storage/record_check.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "common/base/file_io.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/record_index_format.h"
#include "expert_node/storage/record_reader.h"

namespace deltafin {

absl::Status RemoveUnreadableIndexes(const std::string& folder,
                                     const ModelSpec& spec) {
  constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    if (!spec.is_moe(layer)) continue;
    const std::string path = RecordReader::IndexPath(folder, layer);
    const absl::StatusOr<std::string> bytes = ReadFile(path, kMaxIndexBytes);
    if (absl::IsNotFound(bytes.status())) continue;
    if (!bytes.ok()) return bytes.status();
    const auto contents = ParseRecordIndex(
        {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
    if (!absl::IsDataLoss(contents.status())) continue;
    spdlog::warn("{} has no readable header; it is removed", path);
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error) return ErrnoStatus(error.value(), "remove", path);
  }
  return absl::OkStatus();
}

absl::Status DropDamagedSlices(RecordStore& records,
                               const ExpertInstallOptions& options) {
  const RecordModel& model = records.model();
  const ExpertShape& shape = model.shape;
  ASSIGN_OR_RETURN(AlignedBuffer buffer,
                   AlignedBuffer::Allocate(shape.stride_bytes()));
  const uint64_t total = records.stats().held_bytes;
  uint64_t done = 0;
  for (int layer = model.first_moe_layer; layer < model.num_layers; ++layer) {
    for (int expert = 0; expert < model.num_experts; ++expert) {
      if (options.cancelled && options.cancelled()) {
        return absl::CancelledError("cancelled");
      }
      const ExpertKey key{layer, expert};
      for (const SliceRun held : records.HeldSlices(key)) {
        for (int i = held.first; i < held.first + held.count; ++i) {
          uint8_t* const out[] = {buffer.data() + shape.slice_offset(i)};
          const absl::StatusOr<uint64_t> bytes =
              records.Read(key, {i, 1}, out, [](int) {});
          if (bytes.ok()) {
            done += *bytes;
          } else if (!absl::IsDataLoss(bytes.status())) {
            return bytes.status();
          }
        }
      }
      if (options.progress) {
        options.progress(fmt::format("checking experts, layer {}", layer), done,
                         total);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace deltafin
