#include "expert_node/storage/slice_check.h"

#include <cstddef>

#include "kernels/expert_tiles.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

// Matrix by matrix: scales are looked at while their cache lines are near.
absl::Status CheckSlice(const ExpertShape& shape, int slice,
                        const uint8_t* bytes, const Xxh128& digest) {
  Xxh3 hash;
  ptrdiff_t nan = -1;
  size_t offset = 0;
  for (int matrix = 0; matrix < kSliceMatrices; ++matrix) {
    const size_t size = SliceMatrixBytes(shape, slice, matrix);
    hash.Update({bytes + offset, size});
    const ptrdiff_t found =
        FindNanScaleInMatrix(shape, slice, matrix, bytes + offset);
    if (nan < 0 && found >= 0) nan = static_cast<ptrdiff_t>(offset) + found;
    offset += size;
  }
  if (hash.Digest() != digest) {
    return absl::DataLossError("the bytes differ from their digest");
  }
  if (nan < 0) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("scale byte 255 (NaN) at byte {} of slice {}", nan, slice));
}

}  // namespace deltafin
