// spine_node/unit_loader.h
//
// Fills the memory of one unit from the released tensors: packs matrices into
// tiles block by block, quantises rows, turns vectors into f32. Memory beyond
// the unit's own: one block of 256 rows per thread. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/aligned_buffer.h"
#include "common/base/direct_reader.h"
#include "common/base/mutex.h"
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

  // Fills memory.dense: small matrices and vectors. Blocks on disk.
  absl::Status LoadDense(const UnitLayout& layout, WeightMemory& memory);
  // Fills layout.rows_bytes at `rows` from the released rows, quantised in an
  // int8 spine. Blocks on disk. Errors: INVALID_ARGUMENT naming tensor and row
  // that cannot be quantised.
  absl::Status LoadRows(const UnitLayout& layout, std::span<uint8_t> rows);

 private:
  struct Block {
    const MatrixPlace* place;
    int index;  // of the row block
  };
  struct Scratch {
    AlignedBuffer file_bytes;
    std::vector<uint16_t> rows;        // released rows of the block
    std::vector<uint16_t> transposed;  // kHeadKeys
    std::vector<int8_t> quantized;
  };

  // Packs the blocks of the matrices in rows, or of the others, into `memory`.
  absl::Status PackMatrices(const UnitLayout& layout, bool in_rows,
                            std::span<uint8_t> memory);
  // Released rows [first, first + count) to scratch.rows.
  absl::Status ReadRows(const MatrixPlace& place, int64_t first, int64_t count,
                        Scratch& scratch);
  // The reader of a shard, opened on first use.
  absl::StatusOr<const DirectReader*> Reader(const std::string& path);
  absl::Status PackBf16(const Block& block, uint8_t* memory, Scratch& scratch);
  absl::Status PackInt8(const Block& block, uint8_t* memory, Scratch& scratch);
  absl::Status LoadVector(const VectorPlace& place, int head_dim,
                          float* out) const;

  const Checkpoint& checkpoint_;
  const KernelTarget& kernel_;
  ThreadPool& threads_;
  std::vector<Scratch> scratch_;  // one per worker
  Mutex mutex_;
  absl::flat_hash_map<std::string, std::unique_ptr<DirectReader>> readers_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
