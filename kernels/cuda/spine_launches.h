// kernels/cuda/spine_launches.h
//
// The launches of the spine on a card and what each is given. All addresses are
// the card's; [T, ...] arrays have T = num_tokens rows, at most kSpineTokens.
// Every launch comes after the one before has ended, but may begin to fetch
// weights earlier. Private to kernels/cuda/.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/spine_tiles.h"
#include "kernels/expert_weights.h"

namespace deltafin::cuda {

// Where and how launches go.
struct SpineTarget {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
  size_t shared_bytes = 0;  // that a block may have
  bool hopper = false;      // clusters and chained launches
};

// Activations as products take them; null parts are not wanted.
struct PreparedView {
  uint8_t* split = nullptr;  // SplitBytes: for bf16 matrices
  uint8_t* limbs = nullptr;  // LimbBytes: for int8 matrices
  float* factors = nullptr;  // [chunks][kSpineTokens], with limbs
};

struct ProductMatrix {
  const uint8_t* tiles = nullptr;
  const float* scale = nullptr;  // [rows] of int8, else null
  int rows = 0;
  int stages = 0;  // of a row block
  int first_block = 0;
  int first_stage = 0;
};

// Products of up to eight matrices with the same activations. `early`: they are
// older than the launch before, which may still run; the products wait for it
// when they have nearly ended.
struct ProductCall {
  static constexpr int kMaxMatrices = 8;
  ProductMatrix matrices[kMaxMatrices];
  int num_matrices = 0;
  int num_tokens = 0;
  int total_stages = 0;
  int per_block = 1;  // stages of a block of the grid
  bool early = false;
  PreparedView x;
  float* partials = nullptr;
};
// Blocks of the grid that a launch of so many stages takes.
int ProductBlocks(const SpineTarget& target, int total_stages);
cudaError_t LaunchProduct(const SpineTarget& target, const ProductCall& call);

// What is still to be added to the prefix: none, one product, or the sum of
// two.
struct PendingSum {
  ProductView products[2];
  int count = 0;
  bool starts = false;  // the sum is the prefix: a block began
};

// prefix += pending; candidates mixed (docs/model.md 4.2), normalised,
// prepared.
struct ResidualCall {
  static constexpr int kMaxSnapshots = 15;
  float* prefix = nullptr;                     // [T, hidden], updated
  const float* snapshots[kMaxSnapshots] = {};  // [T, hidden]
  int num_snapshots = 0;                       // 0: the prefix is the mixture
  float* next_snapshot = nullptr;              // takes the prefix, or null
  const float* mix = nullptr;                  // [hidden] norm_w * proj_w
  const float* norm = nullptr;  // [hidden]; null: only the prefix is updated
  float eps = 0;
  int hidden = 0;
  int num_tokens = 0;
  PendingSum pending;
  PreparedView out;
};
cudaError_t LaunchResidual(const SpineTarget& target, const ResidualCall& call);

// One sequence of a step: rows [first_row, first_row + count).
struct KdaSlice {
  float* matrix = nullptr;  // [heads, dim, dim], updated
  float* history[3] = {};   // q k v, [3, width] oldest first, updated
  int first_row = 0;
  int count = 0;
};

struct KdaCall {
  ProductView q, k, v, g, f_a, b;
  const uint16_t* f_b = nullptr;      // bf16 [width, dim]
  const float* taps[3] = {};          // q k v, [width, 4]
  const float* decay_rate = nullptr;  // [heads]
  const float* dt_bias = nullptr;     // [width]
  const float* o_norm = nullptr;      // [dim]
  int heads = 0;
  int dim = 0;  // 16, 32, 64 or 128
  float bound = 0;
  float l2_eps = 0;
  float norm_eps = 0;
  KdaSlice slices[kSpineTokens];
  int num_slices = 0;
  float* out = nullptr;   // [T, width], or:
  PreparedView prepared;  // where KdaPrepares
};
// Whether the launch prepares its output itself: heads of 128 values.
inline bool KdaPrepares(const KdaCall& call) {
  return call.dim == kPreparedColumns;
}
cudaError_t LaunchKda(const SpineTarget& target, const KdaCall& call);

// One sequence of a step over its latent cache.
struct MlaSlice {
  float* rows = nullptr;  // [position + count, latent + rope] at least
  int64_t position = 0;   // rows that are there
  int first_row = 0;
  int count = 0;
};

struct MlaCall {
  ProductView q_a, kv_a, q_b;
  // g in parts of gate_rows rows, the last one with what is left.
  static constexpr int kGateParts = 3;
  ProductView gates[kGateParts];
  int gate_rows = 0;
  const float* q_a_norm = nullptr;
  const float* kv_a_norm = nullptr;
  const uint16_t* keys = nullptr;    // bf16 [heads, nope, latent]
  const uint16_t* values = nullptr;  // bf16 [heads, v_dim, latent]
  int heads = 0;
  int q_lora = 0;
  int latent = 0;
  int rope = 0;
  int nope = 0;
  int v_dim = 0;
  float low_rank_eps = 0;
  float scale = 0;
  int num_tokens = 0;
  MlaSlice slices[kSpineTokens];
  int num_slices = 0;
  PreparedView q_low;        // out of LaunchMlaNorms
  float* queries = nullptr;  // [T, heads, latent + rope]
  float* parts = nullptr;    // [splits][T, heads][latent]: scratch
  float* stats = nullptr;    // [splits][T, heads][2]: largest score, total
  int64_t parts_floats = 0;  // of it
  float* out = nullptr;      // [T, heads * v_dim], or:
  PreparedView prepared;     // where MlaPrepares
};
// Whether LaunchMlaValues prepares its output itself: heads of 128 values, the
// most there may be.
DELTAFIN_HOST_DEVICE bool MlaPrepares(const MlaCall& call) {
  return call.v_dim == kPreparedColumns;
}
// Splits of the positions that a call takes, the most of its slices.
int MlaSplits(const SpineTarget& target, const MlaCall& call);
// The least shared memory of a block of LaunchMlaAttend, which takes more where
// the card has room.
size_t MlaAttendBytes(int latent, int rope);
cudaError_t LaunchMlaNorms(const SpineTarget& target, const MlaCall& call);
cudaError_t LaunchMlaAbsorb(const SpineTarget& target, const MlaCall& call);
// early: the queries are older than the launch before, which may still run.
cudaError_t LaunchMlaAttend(const SpineTarget& target, const MlaCall& call,
                            bool early);
cudaError_t LaunchMlaValues(const SpineTarget& target, const MlaCall& call);

struct RouterCall {
  ProductView router, latent_down;
  const float* bias = nullptr;  // [experts]
  int num_experts = 0;          // at most 1,024
  int top_k = 0;
  int latent = 0;
  float scaling = 0;
  int num_tokens = 0;
  int32_t* not_finite = nullptr;  // set to 1 where a value was inf or NaN
  int32_t* experts = nullptr;     // [T, top_k] ascending
  float* weights = nullptr;       // [T, top_k]
  float* latents = nullptr;       // [T, latent]
};
cudaError_t LaunchRouter(const SpineTarget& target, const RouterCall& call);

// out = SiTU(gate, up), prepared.
struct ActivateCall {
  ProductView gate, up;
  SituParams situ;
  int width = 0;
  int num_tokens = 0;
  PreparedView out;
};
cudaError_t LaunchActivate(const SpineTarget& target, const ActivateCall& call);

// out = RMSNorm(sums * 2^-40), prepared. The sums are older than the launch
// before, which may still run.
struct SumNormCall {
  const int64_t* sums = nullptr;  // [T, width]
  const float* norm = nullptr;
  float eps = 0;
  int width = 0;
  int num_tokens = 0;
  PreparedView out;
};
cudaError_t LaunchSumNorm(const SpineTarget& target, const SumNormCall& call);

// x [T, width] prepared.
struct PrepareCall {
  const float* x = nullptr;
  int width = 0;
  int num_tokens = 0;
  PreparedView out;
};
cudaError_t LaunchPrepare(const SpineTarget& target, const PrepareCall& call);

// out [T, rows] = the product.
struct GatherCall {
  ProductView product;
  int rows = 0;
  int num_tokens = 0;
  float* out = nullptr;
};
cudaError_t LaunchGather(const SpineTarget& target, const GatherCall& call);

}  // namespace deltafin::cuda
