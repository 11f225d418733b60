// Times layers of the spine of the full model's size on an NVIDIA card against
// a copy within the card's memory in the same run. Routed experts are left out;
// their sums are given.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/card.h"
#include "bench/flags.h"
#include "bench/measurement.h"
#include "kernels/cuda/cuda_experts.h"
#include "kernels/cuda/spine_card.h"

namespace deltafin::bench {
namespace {

constexpr char kHelp[] =
    "usage: cuda_spine [--card N] [--context N] [--rounds N] [--layers N]\n"
    "A layer with KDA and one with MLA of the full model's width, both with\n"
    "router, latent projections and shared experts, in bf16 and int8, in "
    "steps\n"
    "of 1, 2, 4 and 8 tokens. A round is the layer --layers times (default "
    "20)\n"
    "between two events; medians over --rounds rounds (default 9). MLA looks\n"
    "back over --context tokens (default 1024). The floor is the bytes of\n"
    "weights and states over the speed of a copy within the card's memory,\n"
    "read and written bytes together. Then the parts of a layer, each timed\n"
    "alone.\n";

constexpr int kTokenCounts[] = {1, 2, 4, 8};
constexpr int kSnapshots = 5;  // of 8, about the mean over the model's layers

struct Options {
  int card = 0;
  int context = 1024;
  int rounds = 9;
  int layers = 20;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("cuda_spine", kHelp);
  flags.AddNumber("--card", options.card, 0);
  flags.AddNumber("--context", options.context, kCudaSpineTokens);
  flags.AddNumber("--rounds", options.rounds);
  flags.AddNumber("--layers", options.layers);
  flags.Parse(argc, argv);
  return options;
}

CudaSpineShape FullShape() {
  CudaSpineShape s;
  s.hidden_size = 7168;
  s.num_snapshots = 8;
  s.rms_norm_eps = 1e-5f;
  s.low_rank_norm_eps = 1e-6f;
  s.l2_norm_eps = 1e-6f;
  s.kda_num_heads = 96;
  s.kda_head_dim = 128;
  s.gate_lower_bound = -5;
  s.num_attention_heads = 96;
  s.q_lora_rank = 1536;
  s.kv_lora_rank = 512;
  s.qk_nope_head_dim = 128;
  s.qk_rope_head_dim = 64;
  s.v_head_dim = 128;
  s.dense_width = 33792;
  s.shared_width = 6144;
  s.num_experts = 896;
  s.top_k = 16;
  s.latent_size = 3584;
  s.routed_scaling_factor = 1;
  s.vocab_size = 163840;
  return s;
}

// Memory of the card, filled with random values; counts what a layer reads.
class CardWeights {
 public:
  explicit CardWeights(int card) : card_(card) {
    uint64_t state = 1;
    for (uint16_t& v : random_) {  // bf16: +-[2^-7, 2^-6), no infinities
      state = state * 6364136223846793005u + 1442695040888963407u;
      v = static_cast<uint16_t>(0x3c00 | (state >> 40 & 0x807f));
    }
  }

  CudaMatrix Matrix(int rows, int cols, bool int8) {
    const size_t bytes = CudaMatrixBytes(rows, cols, int8);
    bytes_ += size_t{1} * rows * cols * (int8 ? 1 : 2);
    // The bytes of bf16 are as good as any as int8.
    const void* tiles = Fill(bytes, random_);
    return {tiles, int8 ? Vector(rows, 1e-4f) : nullptr, rows, cols};
  }
  const uint16_t* Small(size_t count) {
    bytes_ += 2 * count;
    return static_cast<const uint16_t*>(Fill(2 * count, random_));
  }
  float* Vector(size_t count, float value) {
    bytes_ += 4 * count;
    const std::vector<float> pattern(count, value);
    return static_cast<float*>(Fill(4 * count, pattern));
  }
  // Since the last call.
  size_t TakeBytes() { return std::exchange(bytes_, 0); }

 private:
  // Repeats the pattern.
  template <typename T>
  void* Fill(size_t bytes, const std::vector<T>& pattern) {
    std::string why;
    memory_.push_back(CudaMemory::Allocate(card_, bytes, &why));
    if (memory_.back() == nullptr) Fail(why);
    const size_t most = pattern.size() * sizeof(T);
    for (size_t done = 0; done < bytes; done += most) {
      const size_t count = std::min(most, bytes - done);
      if (!memory_.back()->CopyIn(done, pattern.data(), count, &why)) Fail(why);
    }
    return memory_.back()->data();
  }

  const int card_;
  std::vector<uint16_t> random_ = std::vector<uint16_t>(size_t{8} << 20);
  std::vector<std::unique_ptr<CudaMemory>> memory_;
  size_t bytes_ = 0;
};

// A layer with its state and the bytes that one step moves.
struct BenchLayer {
  CudaSpineLayer layer;
  CudaSequence sequence;
  size_t weight_bytes = 0;
  size_t state_bytes = 0;  // read and written
};

void AddFeedForward(const CudaSpineShape& s, bool int8, CardWeights& weights,
                    CudaSpineLayer& layer) {
  const int hidden = s.hidden_size;
  layer.input_norm = weights.Vector(hidden, 1);
  layer.post_attention_norm = weights.Vector(hidden, 1);
  layer.attention_mix = weights.Vector(hidden, 1e-3f);
  layer.mlp_mix = weights.Vector(hidden, 1e-3f);
  CudaMoeWeights& moe = layer.moe;
  moe.router = weights.Matrix(s.num_experts, hidden, false);
  moe.latent_down = weights.Matrix(s.latent_size, hidden, int8);
  moe.latent_up = weights.Matrix(hidden, s.latent_size, int8);
  moe.bias = weights.Vector(s.num_experts, 0.1f);
  moe.latent_norm = weights.Vector(s.latent_size, 1);
  moe.shared = {weights.Matrix(s.shared_width, hidden, int8),
                weights.Matrix(s.shared_width, hidden, int8),
                weights.Matrix(hidden, s.shared_width, int8)};
}

BenchLayer MakeKdaLayer(const CudaSpineShape& s, bool int8,
                        CardWeights& weights) {
  BenchLayer made;
  const int hidden = s.hidden_size, heads = s.kda_num_heads;
  const int dim = s.kda_head_dim, width = heads * dim;
  AddFeedForward(s, int8, weights, made.layer);
  CudaKdaWeights& kda = made.layer.kda;
  for (CudaMatrix* m : {&kda.q, &kda.k, &kda.v, &kda.g}) {
    *m = weights.Matrix(width, hidden, int8);
  }
  kda.f_a = weights.Matrix(dim, hidden, false);
  kda.f_b = weights.Small(size_t{1} * width * dim);
  kda.b = weights.Matrix(heads, hidden, false);
  kda.o = weights.Matrix(hidden, width, int8);
  for (const float*& taps : kda.taps) taps = weights.Vector(4 * width, 0.25f);
  kda.decay_rate = weights.Vector(heads, 1);
  kda.dt_bias = weights.Vector(width, 0.1f);
  kda.o_norm = weights.Vector(dim, 1);
  made.weight_bytes = weights.TakeBytes();
  made.sequence.kda_matrix = weights.Vector(size_t{1} * width * dim, 0);
  for (float*& history : made.sequence.kda_history) {
    history = weights.Vector(3 * width, 0);
  }
  made.state_bytes = 2 * weights.TakeBytes();
  return made;
}

BenchLayer MakeMlaLayer(const CudaSpineShape& s, bool int8, int context,
                        CardWeights& weights) {
  BenchLayer made;
  made.layer.is_mla = true;
  const int hidden = s.hidden_size, heads = s.num_attention_heads;
  const int key = s.kv_lora_rank + s.qk_rope_head_dim;
  AddFeedForward(s, int8, weights, made.layer);
  CudaMlaWeights& mla = made.layer.mla;
  mla.q_a = weights.Matrix(s.q_lora_rank, hidden, int8);
  mla.q_b = weights.Matrix(heads * (s.qk_nope_head_dim + s.qk_rope_head_dim),
                           s.q_lora_rank, int8);
  mla.kv_a = weights.Matrix(key, hidden, int8);
  mla.g = weights.Matrix(heads * s.v_head_dim, hidden, int8);
  mla.o = weights.Matrix(hidden, heads * s.v_head_dim, int8);
  mla.q_a_norm = weights.Vector(s.q_lora_rank, 1);
  mla.kv_a_norm = weights.Vector(s.kv_lora_rank, 1);
  mla.keys =
      weights.Small(size_t{1} * heads * s.qk_nope_head_dim * s.kv_lora_rank);
  mla.values = weights.Small(size_t{1} * heads * s.v_head_dim * s.kv_lora_rank);
  made.weight_bytes = weights.TakeBytes();
  made.sequence.mla_rows = weights.Vector(size_t{1} * context * key, 0.01f);
  made.state_bytes = weights.TakeBytes();
  return made;
}

class SpineBench {
 public:
  explicit SpineBench(const Options& options)
      : options_(options), shape_(FullShape()), weights_(options.card) {
    spine_ = CudaSpine::Create(options.card, shape_, nullptr, &why_);
    if (spine_ == nullptr) Fail(why_);
    stream_ = static_cast<cudaStream_t>(spine_->stream());
    timer_.emplace(stream_);
    rows_ = weights_.Vector(size_t{1} * kCudaSpineTokens * shape_.hidden_size,
                            0.5f);
    sums_ = reinterpret_cast<int64_t*>(weights_.Vector(
        size_t{2} * kCudaSpineTokens * shape_.latent_size, 0.5f));
    weights_.TakeBytes();
  }

  double MeasureCopy() {
    copy_speed_ =
        CopySpeed(*AllocateOn(options_.card, size_t{8} << 30), stream_);
    return copy_speed_;
  }

  void MeasureKind(bool is_mla, bool int8) {
    BenchLayer layer =
        is_mla ? MakeMlaLayer(shape_, int8, options_.context, weights_)
               : MakeKdaLayer(shape_, int8, weights_);
    const std::string name =
        std::string(is_mla ? "MLA " : "KDA ") + (int8 ? "int8" : "bf16");
    double one = 0;
    for (const int tokens : kTokenCounts) {
      BeginStep(layer, tokens);
      const double bytes =
          static_cast<double>(layer.weight_bytes + layer.state_bytes);
      const double floor = 1e6 * bytes / copy_speed_;
      const double time = Time(options_.layers, [&] { Run(layer); });
      if (tokens == 1) one = time;
      std::printf("%-8s %6d %8.1f %8.1f %8.1f..%-8.1f %7.3f %7.2f",
                  name.c_str(), tokens, floor, time, lowest_, highest_,
                  floor / time, time / one);
      PrintParts(layer);
    }
  }

 private:
  void BeginStep(BenchLayer& layer, int tokens) {
    layer.sequence.count = tokens;
    layer.sequence.mla_position = options_.context - tokens;
    Require(spine_->Begin(rows_, tokens, &why_));
    for (int i = 0; i < kSnapshots; ++i) Attend(layer, /*starts_block=*/true);
    Run(layer);
  }
  void Attend(BenchLayer& layer, bool starts_block) {
    Require(
        spine_->Attend(layer.layer, starts_block, &layer.sequence, 1, &why_));
  }
  void Route(BenchLayer& layer) { Require(spine_->Route(layer.layer, &why_)); }
  void Shared(BenchLayer& layer) {
    Require(spine_->SharedExperts(layer.layer, &why_));
  }
  void AddRouted(BenchLayer& layer) {
    Require(spine_->AddRoutedExperts(layer.layer, sums_, &why_));
  }
  void Run(BenchLayer& layer) {
    Attend(layer, false);
    Route(layer);
    Shared(layer);
    AddRouted(layer);
  }
  void PrintParts(BenchLayer& layer) {
    const std::function<void()> parts[] = {
        [&] { Attend(layer, false); }, [&] { Route(layer); },
        [&] { Shared(layer); }, [&] { AddRouted(layer); }};
    for (const auto& part : parts) {
      std::printf(" %8.1f", Time(options_.layers, part));
    }
    std::printf("\n");
  }

  // Microseconds of one call out of `calls`, median over the rounds.
  double Time(int calls, const std::function<void()>& call) {
    std::vector<double> times;
    for (int round = 0; round <= options_.rounds; ++round) {
      timer_->Begin();
      for (int i = 0; i < calls; ++i) call();
      const double time = timer_->End() / calls;
      if (round > 0) times.push_back(time);
    }
    lowest_ = *std::min_element(times.begin(), times.end());
    highest_ = *std::max_element(times.begin(), times.end());
    return Median(times);
  }
  void Require(bool ok) const {
    if (!ok) Fail(why_);
  }

  const Options options_;
  const CudaSpineShape shape_;
  std::string why_;
  CardWeights weights_;
  std::unique_ptr<CudaSpine> spine_;
  cudaStream_t stream_ = nullptr;
  std::optional<CardTimer> timer_;
  const float* rows_ = nullptr;
  const int64_t* sums_ = nullptr;
  double copy_speed_ = 0;
  double lowest_ = 0;
  double highest_ = 0;
};

void RunAll(const Options& options) {
  const CudaCard card = FindCard(options.card);
  SpineBench bench(options);
  std::printf("%s: copy %.0f GB/s\n", card.name.c_str(),
              1e-9 * bench.MeasureCopy());
  std::printf("%-8s %6s %8s %8s %18s %7s %7s %8s %8s %8s %8s\n", "layer",
              "tokens", "floor us", "us", "lowest..highest", "of copy",
              "of T=1", "attend", "route", "shared", "add");
  for (const bool int8 : {false, true}) {
    for (const bool is_mla : {false, true}) bench.MeasureKind(is_mla, int8);
  }
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  deltafin::bench::RunAll(deltafin::bench::ParseOptions(argc, argv));
}
