#include "spine_node/cpu/embedding.h"

#include <bit>

#include "common/base/status_macros.h"

namespace deltafin {

Embedding::Embedding(const TensorLocation& table, int hidden_size)
    : table_(table), row_(hidden_size) {}

absl::Status Embedding::Read(std::span<const int32_t> ids, float* out) {
  const uint64_t row_bytes = row_.size() * sizeof(uint16_t);
  for (const int32_t id : ids) {
    RETURN_IF_ERROR(table_.file->Read(
        *table_.info, row_bytes * static_cast<uint64_t>(id),
        {reinterpret_cast<uint8_t*>(row_.data()), row_bytes}));
    for (const uint16_t value : row_) {
      *out++ = std::bit_cast<float>(uint32_t{value} << 16);
    }
  }
  return absl::OkStatus();
}

}  // namespace deltafin
