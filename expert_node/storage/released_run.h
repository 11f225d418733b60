// expert_node/storage/released_run.h
//
// A run of slices of one expert on its way from released tensors to tiles:
// where its six parts lie, read with neighbours together, checked for NaN
// scales, packed. Wherever the bytes come from. Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/aligned_buffer.h"
#include "common/base/expert_key.h"
#include "common/base/model_spec.h"
#include "common/base/tensor_names.h"
#include "kernels/expert_tiles.h"

namespace deltafin {

// Buffers are kept from one run to the next.
class ReleasedRun {
 public:
  // Where a tensor begins. Files are numbered as the caller likes.
  struct Place {
    size_t file = 0;
    uint64_t offset = 0;
  };
  using Find = absl::FunctionRef<absl::StatusOr<Place>(const TensorSpec&)>;
  // Reads a range of a file; the bytes may lie in `buffer` or elsewhere.
  using ReadRange = absl::FunctionRef<absl::StatusOr<std::span<const uint8_t>>(
      size_t file, uint64_t offset, uint64_t bytes, AlignedBuffer& buffer)>;

  // Gate and up rows of the run are contiguous; its down columns are strided,
  // so down is always taken whole. Errors: those of `find`.
  absl::Status Locate(const ModelSpec& spec, ExpertKey key, SliceRun run,
                      Find find);

  // The file of the gate scales, for messages. REQUIRES: located.
  size_t file() const { return parts_[1].file; }

  // Reads all parts: one range where they lie back to back, as released.
  // Returns the bytes read. Errors: those of `read`.
  absl::StatusOr<uint64_t> Read(ReadRange read);

  // Writes slice run.first + i to out[i] in tile order and tells `ready`.
  // Errors: DATA_LOSS for a NaN scale, naming `path`, matrix, row and group;
  // RESOURCE_EXHAUSTED. REQUIRES: read.
  absl::Status Pack(std::string_view path, std::span<uint8_t* const> out,
                    absl::FunctionRef<void(int slice)> ready);

 private:
  static constexpr int kNumParts = 6;
  struct Part {
    size_t file = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    const uint8_t* data = nullptr;  // once read
  };

  absl::Status GatherDown(ReleasedExpert& released);

  ExpertShape shape_;
  SliceRun run_;
  std::array<Part, kNumParts> parts_;  // in the order of ExpertTensors
  std::array<AlignedBuffer, kNumParts> buffers_;
  AlignedBuffer down_;  // down columns of a partial run, packed then scales
};

}  // namespace deltafin
