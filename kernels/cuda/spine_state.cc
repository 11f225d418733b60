// The launches that the calls of a CudaSpine share.
#include "kernels/cuda/spine_state.h"

#include <algorithm>
#include <cmath>

namespace deltafin {

using cuda::KdaCall;
using cuda::MlaCall;
using cuda::PreparedView;
using cuda::ProductView;
using cuda::SpineProduct;

namespace {

// Rows [begin, end) of a matrix: whole blocks of rows, or up to its end.
CudaMatrix RowsOf(const CudaMatrix& m, int begin, int end) {
  const bool int8 = m.row_scale != nullptr;
  return {static_cast<const uint8_t*>(m.tiles) +
              CudaMatrixBytes(begin, m.cols, int8),
          int8 ? m.row_scale + begin : nullptr, end - begin, m.cols};
}

}  // namespace

bool CudaSpine::State::Multiply(SpineProduct product, const PreparedView& x,
                                Matrices matrices,
                                std::initializer_list<ProductView*> views,
                                std::string* why, bool early) {
  cuda::ProductCall call;
  int block = 0, stage = 0;
  auto view = views.begin();
  for (const CudaMatrix* m : matrices) {
    const int stages = cuda::SpineStages(m->cols, m->row_scale ? 1 : 2);
    call.matrices[call.num_matrices++] = {static_cast<const uint8_t*>(m->tiles),
                                          m->row_scale,
                                          m->rows,
                                          stages,
                                          block,
                                          stage};
    **view++ = {work->partials[product], block, stage, stages, 1};
    const int blocks =
        (m->rows + cuda::kSpineBlockRows - 1) / cuda::kSpineBlockRows;
    block += blocks;
    stage += blocks * stages;
  }
  const int grid = cuda::ProductBlocks(target, stage);
  call.num_tokens = num_tokens;
  call.total_stages = stage;
  call.per_block = (stage + grid - 1) / grid;
  call.early = early;
  call.x = x;
  call.partials = work->partials[product];
  for (ProductView* v : views) v->per_block = call.per_block;
  return Check(cuda::LaunchProduct(target, call), "starting products", why);
}

bool CudaSpine::State::MixInput(const float* mix, const float* norm,
                                float* next_snapshot, Matrices readers,
                                std::string* why) {
  cuda::ResidualCall call;
  call.prefix = work->prefix;
  call.num_snapshots = norm == nullptr ? 0 : num_snapshots;
  for (int i = 0; i < call.num_snapshots; ++i) {
    call.snapshots[i] = work->snapshots[i];
  }
  call.next_snapshot = next_snapshot;
  call.mix = mix;
  call.norm = norm;
  call.eps = shape.rms_norm_eps;
  call.hidden = shape.hidden_size;
  call.num_tokens = num_tokens;
  call.pending = pending;
  call.out = For(work->input, readers);
  pending = {};
  return Check(cuda::LaunchResidual(target, call), "starting the residual mix",
               why);
}

bool CudaSpine::State::Prepare(const float* x, int width,
                               const PreparedView& out, std::string* why) {
  const cuda::PrepareCall call = {x, width, num_tokens, out};
  return Check(cuda::LaunchPrepare(target, call), "preparing activations", why);
}

bool CudaSpine::State::BringSums(const int64_t* sums, const int64_t** on_card,
                                 std::string* why) {
  cudaPointerAttributes attributes;
  if (!Check(cudaPointerGetAttributes(&attributes, sums), "finding expert sums",
             why)) {
    return false;
  }
  *on_card = sums;
  if (attributes.type == cudaMemoryTypeDevice && attributes.device == card) {
    return true;
  }
  *on_card = work->sums;
  return Check(cudaMemcpyAsync(work->sums, sums,
                               sizeof(int64_t) * num_tokens * shape.latent_size,
                               cudaMemcpyDefault, target.stream),
               "copying expert sums", why);
}

bool CudaSpine::State::AttendKda(const CudaSpineLayer& layer,
                                 const CudaSequence* sequences,
                                 int num_sequences, std::string* why) {
  const CudaKdaWeights& w = layer.kda;
  KdaCall call;
  const State::Matrices in = {&w.q, &w.k, &w.v, &w.g, &w.f_a, &w.b};
  if (!Multiply(cuda::kInProduct, For(work->input, in), in,
                {&call.q, &call.k, &call.v, &call.g, &call.f_a, &call.b},
                why)) {
    return false;
  }
  call.f_b = w.f_b;
  std::copy_n(w.taps, 3, call.taps);
  call.decay_rate = w.decay_rate;
  call.dt_bias = w.dt_bias;
  call.o_norm = w.o_norm;
  call.heads = shape.kda_num_heads;
  call.dim = shape.kda_head_dim;
  call.bound = shape.gate_lower_bound;
  call.l2_eps = shape.l2_norm_eps;
  call.norm_eps = shape.rms_norm_eps;
  int row = 0;
  for (int i = 0; i < num_sequences; ++i) {
    const CudaSequence& sequence = sequences[i];
    cuda::KdaSlice& slice = call.slices[call.num_slices++];
    slice.matrix = sequence.kda_matrix;
    std::copy_n(sequence.kda_history, 3, slice.history);
    slice.first_row = row;
    slice.count = sequence.count;
    row += sequence.count;
  }
  call.out = work->attention;
  call.prepared = For(work->attended, {&w.o});
  return Check(cuda::LaunchKda(target, call), "starting KDA steps", why) &&
         (cuda::KdaPrepares(call) ||
          Prepare(call.out, w.o.cols, call.prepared, why));
}

MlaCall CudaSpine::State::DescribeMla(const CudaMlaWeights& w,
                                      const CudaSequence* sequences,
                                      int num_sequences) const {
  MlaCall call;
  call.q_a_norm = w.q_a_norm;
  call.kv_a_norm = w.kv_a_norm;
  call.keys = w.keys;
  call.values = w.values;
  call.heads = shape.num_attention_heads;
  call.q_lora = shape.q_lora_rank;
  call.latent = shape.kv_lora_rank;
  call.rope = shape.qk_rope_head_dim;
  call.nope = shape.qk_nope_head_dim;
  call.v_dim = shape.v_head_dim;
  call.low_rank_eps = shape.low_rank_norm_eps;
  call.scale =
      static_cast<float>(1.0 / std::sqrt(double(call.nope + call.rope)));
  call.num_tokens = num_tokens;
  int row = 0;
  for (int i = 0; i < num_sequences; ++i) {
    const CudaSequence& sequence = sequences[i];
    call.slices[call.num_slices++] = {sequence.mla_rows, sequence.mla_position,
                                      row, sequence.count};
    row += sequence.count;
  }
  call.gate_rows = w.g.rows / MlaCall::kGateParts / cuda::kSpineBlockRows *
                   cuda::kSpineBlockRows;
  call.q_low = For(work->q_low, {&w.q_b});
  call.queries = work->queries;
  call.parts = work->mla_parts;
  call.stats = work->mla_stats;
  call.parts_floats = work->mla_parts_floats;
  call.out = work->attention;
  call.prepared = For(work->attended, {&w.o});
  return call;
}

bool CudaSpine::State::AttendMla(const CudaSpineLayer& layer,
                                 const CudaSequence* sequences,
                                 int num_sequences, std::string* why) {
  const CudaMlaWeights& w = layer.mla;
  MlaCall call = DescribeMla(w, sequences, num_sequences);
  // Gates, which nothing needs before the values, come beside small launches:
  // the latent norms, the latent queries and attention.
  const bool parted = call.gate_rows > 0;
  const auto gates = [&](int part, SpineProduct product) {
    if (part + 1 < MlaCall::kGateParts && !parted) return true;
    const int first = part * call.gate_rows;
    const int end =
        part + 1 < MlaCall::kGateParts ? first + call.gate_rows : w.g.rows;
    const CudaMatrix rows = RowsOf(w.g, first, end);
    return Multiply(product, For(work->input, {&w.g}), {&rows},
                    {&call.gates[part]}, why, /*early=*/true);
  };
  return Multiply(cuda::kInProduct, For(work->input, {&w.q_a, &w.kv_a}),
                  {&w.q_a, &w.kv_a}, {&call.q_a, &call.kv_a}, why) &&
         Check(cuda::LaunchMlaNorms(target, call), "starting latent norms",
               why) &&
         gates(0, cuda::kFirstGateProduct) &&
         Multiply(cuda::kQueryProduct, call.q_low, {&w.q_b}, {&call.q_b}, why,
                  /*early=*/parted) &&
         Check(cuda::LaunchMlaAbsorb(target, call), "starting latent queries",
               why) &&
         gates(1, cuda::kSecondGateProduct) &&
         Check(cuda::LaunchMlaAttend(target, call, /*early=*/parted),
               "starting attention", why) &&
         gates(2, cuda::kThirdGateProduct) &&
         Check(cuda::LaunchMlaValues(target, call), "starting values", why) &&
         (cuda::MlaPrepares(call) ||
          Prepare(call.out, w.o.cols, call.prepared, why));
}

bool CudaSpine::State::FeedForward(const CudaMlpWeights& w, ProductView* down,
                                   std::string* why, bool early) {
  cuda::ActivateCall call;
  if (!Multiply(cuda::kGateUpProduct, For(work->input, {&w.gate, &w.up}),
                {&w.gate, &w.up}, {&call.gate, &call.up}, why, early)) {
    return false;
  }
  call.situ = {shape.situ_beta, shape.situ_linear_beta};
  call.width = w.gate.rows;
  call.num_tokens = num_tokens;
  call.out = For(work->activated, {&w.down});
  return Check(cuda::LaunchActivate(target, call), "starting the gated unit",
               why) &&
         Multiply(cuda::kDownProduct, call.out, {&w.down}, {down}, why);
}

}  // namespace deltafin
