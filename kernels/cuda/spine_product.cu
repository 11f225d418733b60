// y = x W^T for up to eight tokens: the launch that reads the spine's weights.
// A block of eight warps walks along its part of the line of stages; a warp has
// 32 rows and fetches its own tiles, so that nothing waits for another warp.
#include "kernels/cuda/spine_device.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kWarps = kSpineBlockRows / kSpineTileRows;
constexpr int kStages = 3;  // tiles of a warp in shared memory
constexpr size_t kSharedBytes = size_t{kWarps} * kStages * kSpineTileBytes;
constexpr int kTileVectors = kSpineTileBytes / 16;

// A place on the line of stages.
struct Place {
  int matrix = 0;
  int block = 0;  // of the matrix
  int stage = 0;
};

__device__ Place PlaceAt(const ProductCall& call, int position) {
  Place place;
  while (place.matrix + 1 < call.num_matrices &&
         call.matrices[place.matrix + 1].first_stage <= position) {
    ++place.matrix;
  }
  const ProductMatrix& m = call.matrices[place.matrix];
  place.block = (position - m.first_stage) / m.stages;
  place.stage = (position - m.first_stage) % m.stages;
  return place;
}

__device__ void Advance(const ProductCall& call, Place& place) {
  const ProductMatrix& m = call.matrices[place.matrix];
  if (++place.stage < m.stages) return;
  place.stage = 0;
  if (++place.block * kSpineBlockRows < m.rows) return;
  place.block = 0;
  ++place.matrix;
}

// The row tile of a warp, or null where the matrix has none for it.
__device__ const uint8_t* TileAt(const ProductCall& call, const Place& place,
                                 int warp) {
  const ProductMatrix& m = call.matrices[place.matrix];
  const int tile = place.block * kWarps + warp;
  if (tile * kSpineTileRows >= m.rows) return nullptr;
  return m.tiles + (size_t(tile) * m.stages + place.stage) * kSpineTileBytes;
}

// Sixteen bytes of a row in a stage: swizzled so that reading meets every bank
// once.
__device__ __forceinline__ int VectorAt(int row, int vector) {
  return row * (kSpineRowBytes / 16) + (vector ^ (row % 2 * 4));
}

// Weights are read once a step: they leave the second-level cache first.
__device__ __forceinline__ uint64_t WeightPolicy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ void CopyAsync(uint4* to, const uint8_t* from,
                                          uint64_t policy) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
          address),
      "l"(from), "l"(policy));
}

__device__ __forceinline__ void FetchTile(const uint8_t* tile, uint4* stage,
                                          uint64_t policy, int lane) {
  if (tile != nullptr) {
#pragma unroll
    for (int i = 0; i < kTileVectors / 32; ++i) {
      const int row = 4 * i + lane / 8;
      CopyAsync(stage + VectorAt(row, lane % 8), tile + (32 * i + lane) * 16,
                policy);
    }
  }
  asm volatile("cp.async.commit_group;");
}

__device__ __forceinline__ void MultiplyBf16(float c[4], const uint32_t a[4],
                                             uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void MultiplyInt8(int c[4], const uint32_t a[4],
                                             uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Operands of 16 rows for two instructions: sixteen bytes of rows g and g + 8.
struct RowPair {
  uint4 low, high;
  __device__ __forceinline__ void Operand(int step, uint32_t a[4]) const {
    a[0] = step == 0 ? low.x : low.z;
    a[1] = step == 0 ? high.x : high.z;
    a[2] = step == 0 ? low.y : low.w;
    a[3] = step == 0 ? high.y : high.w;
  }
};

__device__ __forceinline__ RowPair ReadRows(const uint4* stage, int half,
                                            int vector, int lane) {
  const int row = 16 * half + lane / 4;
  return {stage[VectorAt(row, vector)], stage[VectorAt(row + 8, vector)]};
}

// Activations of the lane's token for a stage, zeros beyond the last one:
// asked for before the tile is there.
struct StageInput {
  static constexpr int kVectors = 2 * kSplitParts;
  uint4 x[kVectors];
  float factors[2];  // int8: of tokens 2c and 2c + 1
};

__device__ __forceinline__ StageInput ReadInput(const ProductCall& call,
                                                bool int8, int stage,
                                                int lane) {
  StageInput input;
  const auto* x =
      reinterpret_cast<const uint4*>(int8 ? call.x.limbs : call.x.split) +
      size_t(stage) * StageInput::kVectors * 32 + lane;
  const bool has_token = lane / 4 < call.num_tokens;
#pragma unroll
  for (int i = 0; i < StageInput::kVectors; ++i) {
    input.x[i] = {0, 0, 0, 0};
    if (has_token) input.x[i] = x[i * 32];
  }
  const int token = 2 * (lane % 4);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    input.factors[i] = 0;
    if (int8 && token + i < call.num_tokens) {
      input.factors[i] = call.x.factors[stage * kSpineTokens + token + i];
    }
  }
  return input;
}

// acc[half]: rows g and g + 8 for tokens 2c and 2c + 1.
__device__ __forceinline__ void AddBf16Stage(const StageInput& input,
                                             const uint4* tile, int lane,
                                             float acc[2][4]) {
  float sums[2][4] = {};
#pragma unroll
  for (int v = 0; v < 2; ++v) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const RowPair rows = ReadRows(tile, half, 4 * v + lane % 4, lane);
      uint32_t a[4];
      rows.Operand(0, a);
#pragma unroll
      for (int p = 0; p < kSplitParts; ++p) {
        const uint4& x = input.x[kSplitParts * v + p];
        MultiplyBf16(sums[half], a, x.x, x.y);
      }
      rows.Operand(1, a);
#pragma unroll
      for (int p = 0; p < kSplitParts; ++p) {
        const uint4& x = input.x[kSplitParts * v + p];
        MultiplyBf16(sums[half], a, x.z, x.w);
      }
    }
  }
  for (int i = 0; i < 8; ++i) acc[i / 4][i % 4] += sums[i / 4][i % 4];
}

// f32 of l0 + 256 l1 + 65536 l2, rounded once.
__device__ __forceinline__ float Combine(int l0, int l1, int l2) {
  const int low = l0 + 256 * l1;  // below 2^30
  return fmaf(__int2float_rn(l2 + (low >> 16)), 65536.0f,
              __int2float_rn(low & 0xffff));
}

__device__ __forceinline__ void AddInt8Stage(const StageInput& input,
                                             const uint4* tile, int lane,
                                             float acc[2][4]) {
  int sums[kLimbParts][2][4] = {};
#pragma unroll
  for (int v = 0; v < 2; ++v) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const RowPair rows = ReadRows(tile, half, 4 * v + lane % 4, lane);
      uint32_t a[4];
      rows.Operand(0, a);
#pragma unroll
      for (int l = 0; l < kLimbParts; ++l) {
        const uint4& x = input.x[2 * l + v];
        MultiplyInt8(sums[l][half], a, x.x, x.y);
      }
      rows.Operand(1, a);
#pragma unroll
      for (int l = 0; l < kLimbParts; ++l) {
        const uint4& x = input.x[2 * l + v];
        MultiplyInt8(sums[l][half], a, x.z, x.w);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int h = i / 4, k = i % 4;
    acc[h][k] = fmaf(Combine(sums[0][h][k], sums[1][h][k], sums[2][h][k]),
                     input.factors[k % 2], acc[h][k]);
  }
}

// The warp's rows of a slot.
__device__ void StorePart(const ProductCall& call, const Place& place, int warp,
                          int lane, const float acc[2][4]) {
  const ProductMatrix& m = call.matrices[place.matrix];
  const int slot = ProductSlot(m.first_block + place.block, blockIdx.x);
  float* out = call.partials + size_t(slot) * kSpineTokens * kSpineBlockRows;
  for (int i = 0; i < 8; ++i) {
    const int row =
        kSpineTileRows * warp + 16 * (i / 4) + lane / 4 + 8 * (i % 4 / 2);
    const int token = 2 * (lane % 4) + i % 2;
    const int matrix_row = place.block * kSpineBlockRows + row;
    if (token >= call.num_tokens || matrix_row >= m.rows) continue;
    const float scale = m.scale == nullptr ? 1.0f : m.scale[matrix_row];
    out[token * kSpineBlockRows + row] = acc[i / 4][i % 4] * scale;
  }
}

__global__ void __launch_bounds__(32 * kWarps, 2)
    ProductKernel(__grid_constant__ const ProductCall call) {
  extern __shared__ uint4 ring[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint4* stages = ring + size_t(warp) * kStages * kTileVectors;
  const int begin = blockIdx.x * call.per_block;
  const int count = min(call.per_block, call.total_stages - begin);
  Place place = PlaceAt(call, begin);
  Place ahead = place;
  int asked = 0;
  const uint64_t policy = WeightPolicy();
  const auto fetch = [&] {
    const uint8_t* tile = asked < count ? TileAt(call, ahead, warp) : nullptr;
    FetchTile(tile, stages + asked % kStages * kTileVectors, policy, lane);
    if (++asked < count) Advance(call, ahead);
  };
  for (int i = 0; i < kStages - 1; ++i) fetch();
  const int waits_at = call.early ? max(count - 2, 0) : 0;
  float acc[2][4] = {};
  for (int i = 0; i < count; ++i) {
    if (i == waits_at) {
      WaitForWork();
      LetNextCome();
    }
    const ProductMatrix& m = call.matrices[place.matrix];
    const bool int8 = m.scale != nullptr;
    const StageInput input = ReadInput(call, int8, place.stage, lane);
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncwarp();
    fetch();
    const uint4* tile = stages + i % kStages * kTileVectors;
    if (int8) {
      AddInt8Stage(input, tile, lane, acc);
    } else {
      AddBf16Stage(input, tile, lane, acc);
    }
    if (place.stage + 1 == m.stages || i + 1 == count) {
      StorePart(call, place, warp, lane, acc);
      for (int k = 0; k < 8; ++k) acc[k / 4][k % 4] = 0;
    }
    Advance(call, place);
  }
}

}  // namespace

int ProductBlocks(const SpineTarget& target, int total_stages) {
  const int blocks = (target.hopper ? 2 : 1) * target.multiprocessors;
  return total_stages < blocks ? total_stages : blocks;
}

cudaError_t LaunchProduct(const SpineTarget& target, const ProductCall& call) {
  static const cudaError_t allowed = cudaFuncSetAttribute(
      ProductKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(kSharedBytes));
  if (allowed != cudaSuccess) return allowed;
  const int blocks = (call.total_stages + call.per_block - 1) / call.per_block;
  return LaunchSpine(target, ProductKernel, dim3(blocks), 32 * kWarps,
                     kSharedBytes, call);
}

}  // namespace deltafin::cuda
