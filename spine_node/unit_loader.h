// spine_node/unit_loader.h
//
// Fills the memory of one unit from the released tensors: packs matrices into
// tiles block by block, quantises rows, turns vectors into f32. Memory beyond
// the unit's own: one block of 256 rows per thread. Thread-compatible.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/base/safetensors.h"
#include "common/base/thread_pool.h"
#include "kernels/kernel_registry.h"
#include "spine_node/unit_layout.h"

namespace deltafin {

class UnitLoader {
 public:
  // All outlive the loader.
  UnitLoader(const Checkpoint& checkpoint, const KernelTarget& kernel,
             ThreadPool& threads);

  // Fills memory.dense: bf16 matrices and vectors. Blocks on disk.
  absl::Status LoadDense(const UnitLayout& layout, WeightMemory& memory);
  // Fills memory.rows_int8 by quantising the released rows. Errors:
  // INVALID_ARGUMENT naming tensor and row that cannot be quantised.
  absl::Status Quantize(const UnitLayout& layout, WeightMemory& memory);

 private:
  struct Block {
    const MatrixPlace* place;
    int index;  // of the row block
  };
  struct Scratch {
    std::vector<uint16_t> rows;        // released rows of the block
    std::vector<uint16_t> transposed;  // kHeadKeys
    std::vector<int8_t> quantized;
  };

  absl::Status ForEachBlock(
      const UnitLayout& layout, WeightFormat format,
      absl::FunctionRef<absl::Status(const Block&, Scratch&)> body);
  absl::Status ReadRows(const MatrixPlace& place, int64_t first, int64_t count,
                        std::vector<uint16_t>& out) const;
  absl::Status PackBf16(const Block& block, WeightMemory& memory,
                        Scratch& scratch) const;
  absl::Status PackInt8(const Block& block, WeightMemory& memory,
                        Scratch& scratch) const;
  absl::Status LoadVector(const VectorPlace& place, int head_dim,
                          float* out) const;

  const Checkpoint& checkpoint_;
  const KernelTarget& kernel_;
  ThreadPool& threads_;
  std::vector<Scratch> scratch_;  // one per worker
};

}  // namespace deltafin
