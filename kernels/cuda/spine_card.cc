// The order of a layer's launches on the card.
#include "kernels/cuda/spine_card.h"

#include <string>
#include <utility>

#include "kernels/cuda/spine_state.h"

namespace deltafin {

using cuda::PreparedView;

size_t CudaMatrixBytes(int rows, int cols, bool int8) {
  return size_t{1} * cuda::SpineRowTiles(rows) *
         cuda::SpineStages(cols, int8 ? 1 : 2) * cuda::kSpineTileBytes;
}

namespace {

struct Extent {
  const char* name;
  int value;
  int multiple;
  int most;
};

bool IsKdaDim(int dim) {
  return dim == 16 || dim == 32 || dim == 64 || dim == 128;
}

}  // namespace

bool CudaSpine::Supports(const CudaSpineShape& s, std::string* why) {
  constexpr int kAny = 1 << 30;
  const Extent extents[] = {
      {"hidden_size", s.hidden_size, 4, kAny},
      {"q_lora_rank", s.q_lora_rank, 4, kAny},
      {"latent size", s.latent_size, 4, kAny},
      {"kv_lora_rank", s.kv_lora_rank, 8, 512},
      {"qk_rope_head_dim", s.qk_rope_head_dim, 4, 64},
      {"qk_nope_head_dim", s.qk_nope_head_dim, 4, 256},
      {"v_head_dim", s.v_head_dim, 4, cuda::kPreparedColumns},
      {"dense width", s.dense_width, 4, kAny},
      {"shared experts' width", s.shared_width, 4, kAny},
      {"num_experts", s.num_experts, 1, 1024},
      {"num_experts_per_token", s.top_k, 1, s.num_experts},
      {"snapshots", s.num_snapshots, 1, cuda::ResidualCall::kMaxSnapshots}};
  for (const Extent& e : extents) {
    if (e.value >= 1 && e.value % e.multiple == 0 && e.value <= e.most) {
      continue;
    }
    *why = std::string("the card's spine kernels do not take ") + e.name + " " +
           std::to_string(e.value);
    return false;
  }
  if (IsKdaDim(s.kda_head_dim)) return true;
  *why = "the card's spine kernels do not take kda_head_dim " +
         std::to_string(s.kda_head_dim);
  return false;
}

CudaSpine::CudaSpine(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaSpine::~CudaSpine() = default;

int CudaSpine::num_snapshots() const { return state_->num_snapshots; }
const float* CudaSpine::snapshot(int index) const {
  return state_->work->snapshots[index];
}

std::unique_ptr<CudaSpine> CudaSpine::Create(int card,
                                             const CudaSpineShape& shape,
                                             void* stream, std::string* why) {
  if (!Supports(shape, why)) return nullptr;
  auto state = std::make_unique<State>();
  state->card = card;
  state->shape = shape;
  cudaDeviceProp properties;
  if (!state->Choose(why) ||
      !state->Check(cudaGetDeviceProperties(&properties, card),
                    "asking for its properties", why)) {
    return nullptr;
  }
  state->target = {static_cast<cudaStream_t>(stream),
                   properties.multiProcessorCount,
                   properties.sharedMemPerBlockOptin, properties.major >= 9};
  const size_t wanted =
      cuda::MlaAttendBytes(shape.kv_lora_rank, shape.qk_rope_head_dim);
  if (wanted > properties.sharedMemPerBlockOptin) {
    *why = "CUDA card " + std::to_string(card) + " gives a block " +
           std::to_string(properties.sharedMemPerBlockOptin) +
           " bytes of shared memory, attention takes " + std::to_string(wanted);
    return nullptr;
  }
  if (stream == nullptr) {
    state->owns_stream = state->Check(cudaStreamCreate(&state->target.stream),
                                      "making a stream", why);
    if (!state->owns_stream) return nullptr;
  }
  state->work = cuda::SpineWorkspace::Create(card, shape, state->target, why);
  if (state->work == nullptr) return nullptr;
  const size_t bytes = state->work->memory->data() +
                       state->work->memory->size() -
                       reinterpret_cast<uint8_t*>(state->work->not_finite);
  if (!state->Check(
          cudaMallocHost(reinterpret_cast<void**>(&state->routed), bytes),
          "taking pinned memory", why)) {
    return nullptr;
  }
  return std::unique_ptr<CudaSpine>(new CudaSpine(std::move(state)));
}

bool CudaSpine::Begin(const float* rows, int num_tokens, std::string* why) {
  State& s = *state_;
  if (num_tokens < 1 || num_tokens > kCudaSpineTokens) {
    *why = "CUDA card " + std::to_string(s.card) + ": a step of " +
           std::to_string(num_tokens) + " tokens, 1 to 8 are possible";
    return false;
  }
  s.num_tokens = num_tokens;
  s.num_snapshots = 0;
  s.pending = {};
  const size_t bytes = sizeof(float) * num_tokens * s.shape.hidden_size;
  return s.Choose(why) &&
         s.Check(cudaMemcpyAsync(s.work->prefix, rows, bytes, cudaMemcpyDefault,
                                 s.target.stream),
                 "copying embedding rows", why) &&
         s.Check(cudaMemsetAsync(s.work->not_finite, 0, sizeof(int32_t),
                                 s.target.stream),
                 "clearing a flag", why);
}

bool CudaSpine::Attend(const CudaSpineLayer& layer, bool starts_block,
                       const CudaSequence* sequences, int num_sequences,
                       std::string* why) {
  State& s = *state_;
  const CudaKdaWeights& kda = layer.kda;
  const CudaMlaWeights& mla = layer.mla;
  float* snapshot = starts_block ? s.work->snapshots[s.num_snapshots] : nullptr;
  const bool mixed =
      s.Choose(why) &&
      (layer.is_mla
           ? s.MixInput(layer.attention_mix, layer.input_norm, snapshot,
                        {&mla.q_a, &mla.kv_a, &mla.g}, why)
           : s.MixInput(layer.attention_mix, layer.input_norm, snapshot,
                        {&kda.q, &kda.k, &kda.v, &kda.g, &kda.f_a, &kda.b},
                        why));
  if (!mixed) return false;
  if (starts_block) ++s.num_snapshots;
  if (!(layer.is_mla ? s.AttendMla(layer, sequences, num_sequences, why)
                     : s.AttendKda(layer, sequences, num_sequences, why))) {
    return false;
  }
  const CudaMatrix& o = layer.is_mla ? mla.o : kda.o;
  s.pending.count = 1;
  s.pending.starts = starts_block;
  return s.Multiply(cuda::kOutProduct, State::For(s.work->attended, {&o}), {&o},
                    {&s.pending.products[0]}, why);
}

bool CudaSpine::DenseMlp(const CudaSpineLayer& layer, std::string* why) {
  State& s = *state_;
  const CudaMlpWeights& w = layer.dense;
  if (!s.Choose(why) || !s.MixInput(layer.mlp_mix, layer.post_attention_norm,
                                    nullptr, {&w.gate, &w.up}, why)) {
    return false;
  }
  s.pending.count = 1;
  return s.FeedForward(w, &s.pending.products[0], why, /*early=*/false);
}

bool CudaSpine::Route(const CudaSpineLayer& layer, std::string* why) {
  State& s = *state_;
  const CudaMoeWeights& w = layer.moe;
  cuda::RouterCall call;
  if (!s.Choose(why) ||
      !s.MixInput(layer.mlp_mix, layer.post_attention_norm, nullptr,
                  {&w.router, &w.latent_down, &w.shared.gate, &w.shared.up},
                  why) ||
      !s.Multiply(cuda::kRouteProduct,
                  State::For(s.work->input, {&w.router, &w.latent_down}),
                  {&w.router, &w.latent_down},
                  {&call.router, &call.latent_down}, why)) {
    return false;
  }
  call.bias = w.bias;
  call.num_experts = s.shape.num_experts;
  call.top_k = s.shape.top_k;
  call.latent = s.shape.latent_size;
  call.scaling = s.shape.routed_scaling_factor;
  call.num_tokens = s.num_tokens;
  call.not_finite = s.work->not_finite;
  call.experts = s.work->experts;
  call.weights = s.work->weights;
  call.latents = s.work->latents;
  return s.Check(cuda::LaunchRouter(s.target, call), "starting the router",
                 why);
}

bool CudaSpine::TakeRouted(CudaRouted* routed, bool* finite, std::string* why) {
  State& s = *state_;
  const auto* first = reinterpret_cast<const uint8_t*>(s.work->not_finite);
  const auto offset = [first](const void* p) {
    return static_cast<const uint8_t*>(p) - first;
  };
  const size_t bytes = offset(s.work->latents) +
                       sizeof(float) * s.num_tokens * s.shape.latent_size;
  if (!s.Check(cudaMemcpyAsync(s.routed, first, bytes, cudaMemcpyDefault,
                               s.target.stream),
               "copying routes", why) ||
      !s.Check(cudaStreamSynchronize(s.target.stream), "waiting for routes",
               why)) {
    return false;
  }
  const auto* host = reinterpret_cast<const uint8_t*>(s.routed);
  *finite = *s.routed == 0;
  routed->experts =
      reinterpret_cast<const int32_t*>(host + offset(s.work->experts));
  routed->weights =
      reinterpret_cast<const float*>(host + offset(s.work->weights));
  routed->latents =
      reinterpret_cast<const float*>(host + offset(s.work->latents));
  return true;
}

bool CudaSpine::SharedExperts(const CudaSpineLayer& layer, std::string* why) {
  State& s = *state_;
  return s.Choose(why) &&
         s.FeedForward(layer.moe.shared, &s.shared, why, /*early=*/true);
}

bool CudaSpine::AddRoutedExperts(const CudaSpineLayer& layer,
                                 const int64_t* sums, std::string* why) {
  State& s = *state_;
  const CudaMoeWeights& w = layer.moe;
  const int latent = s.shape.latent_size;
  cuda::SumNormCall call;
  call.norm = w.latent_norm;
  call.eps = s.shape.rms_norm_eps;
  call.width = latent;
  call.num_tokens = s.num_tokens;
  call.out = State::For(s.work->latent, {&w.latent_up});
  s.pending.count = 2;
  s.pending.products[1] = s.shared;
  return s.Choose(why) && s.BringSums(sums, &call.sums, why) &&
         s.Check(cuda::LaunchSumNorm(s.target, call), "starting latent norms",
                 why) &&
         s.Multiply(cuda::kLatentUpProduct, call.out, {&w.latent_up},
                    {&s.pending.products[0]}, why);
}

bool CudaSpine::Logits(const CudaSpineHead& head, const float** logits,
                       std::string* why) {
  State& s = *state_;
  cuda::GatherCall call;
  call.rows = s.shape.vocab_size;
  call.num_tokens = s.num_tokens;
  call.out = s.work->logits;
  *logits = s.work->logits;
  return s.Choose(why) &&
         s.MixInput(head.output_mix, head.norm, nullptr, {&head.lm_head},
                    why) &&
         s.Multiply(cuda::kHeadProduct,
                    State::For(s.work->input, {&head.lm_head}), {&head.lm_head},
                    {&call.product}, why) &&
         s.Check(cuda::LaunchGather(s.target, call), "gathering logits", why);
}

bool CudaSpine::Fetch(const float* from, size_t count, float* to,
                      std::string* why) {
  State& s = *state_;
  return s.Choose(why) &&
         s.Check(cudaMemcpyAsync(to, from, count * sizeof(float),
                                 cudaMemcpyDeviceToHost, s.target.stream),
                 "copying from its memory", why) &&
         s.Check(cudaStreamSynchronize(s.target.stream), "waiting for it", why);
}

void* CudaSpine::stream() const { return state_->target.stream; }

bool CudaSpine::Prefix(const float** rows, std::string* why) {
  State& s = *state_;
  *rows = s.work->prefix;
  if (s.pending.count == 0) return true;
  return s.Choose(why) && s.MixInput(nullptr, nullptr, nullptr, {}, why);
}

}  // namespace deltafin
