// Times a layer's routed experts of the full model's size on an NVIDIA card
// against a copy within the card's memory in the same run.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "bench/card.h"
#include "bench/flags.h"
#include "bench/measurement.h"
#include "bench/sample_record.h"
#include "kernels/cuda/cuda_experts.h"
#include "kernels/expert_tiles.h"

namespace deltafin::bench {
namespace {

constexpr ExpertShape kShape = kRecordShape;
constexpr int kTopK = 16;
constexpr int kMaxTokens = 512;

constexpr char kHelp[] =
    "usage: cuda_expert [--card N] [--tokens 1,2,4,8,16,64] [--experts N]\n"
    "                   [--rounds N] [--layers N] [--slices N] [--together]\n"
    "Experts of 17,547,264 bytes, 16 for each token, drawn from --experts\n"
    "(default 896, 15.7 GB). A round is --layers layers (default 28), one\n"
    "after the other, between two events; medians over --rounds rounds. The\n"
    "floor is the bytes of the different experts over the speed of a copy\n"
    "within the card's memory, read and written bytes together. Up to eight\n"
    "tokens with few experts in common are computed each by itself, unless\n"
    "--together is given. With --slices only so many of an expert's twelve\n"
    "are there.\n";

struct Options {
  int card = 0;
  std::vector<int> tokens = {1, 2, 4, 8, 16, 64};
  int experts = 896;
  int rounds = 9;
  int layers = 28;
  int slices = kShape.num_slices();
  bool together = false;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("cuda_expert", kHelp);
  flags.AddNumber("--card", options.card, 0);
  flags.AddNumbers("--tokens", options.tokens, 1, kMaxTokens);
  flags.AddNumber("--experts", options.experts, kTopK);
  flags.AddNumber("--rounds", options.rounds);
  flags.AddNumber("--layers", options.layers);
  flags.AddNumber("--slices", options.slices, 1, kShape.num_slices());
  flags.AddSwitch("--together", options.together);
  flags.Parse(argc, argv);
  return options;
}

class CudaBench {
 public:
  explicit CudaBench(const Options& options) : options_(options) {
    const int max_tokens =
        *std::max_element(options.tokens.begin(), options.tokens.end());
    const size_t stride = kShape.stride_bytes();
    weights_ = AllocateOn(options.card, stride * options.experts);
    experts_ = CudaExperts::Create(
        options.card, {kShape, {}, options.experts, kTopK, max_tokens}, &why_);
    if (experts_ == nullptr) Fail(why_);
    stream_ = static_cast<cudaStream_t>(experts_->stream());
    copy_speed_ = CopySpeed(*weights_, stream_);
    FillExperts();
    x_ = AllocateOn(options.card,
                    sizeof(float) * kShape.latent_size * max_tokens);
    sums_ = AllocateOn(options.card,
                       sizeof(int64_t) * kShape.latent_size * max_tokens);
    routes_ = AllocateOn(options.card, sizeof(CudaExpertRoute) * kTopK *
                                           max_tokens * options.layers);
    std::vector<float> x(size_t{3584} * max_tokens);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(Mix(i) >> 40) * 0x1p-23f - 1.0f;
    }
    CopyIn(*x_, x);
  }

  void Measure(int tokens) {
    const double experts = DrawRoutes(tokens);
    const bool alone =
        !options_.together && SoonerAlone(tokens, kTopK, tokens * kTopK,
                                          static_cast<int64_t>(experts));
    std::vector<double> times;
    CardTimer timer(stream_);
    for (int round = 0; round < options_.rounds + 1; ++round) {
      timer.Begin();
      for (int layer = 0; layer < options_.layers; ++layer) {
        CudaExpertCall call = {
            reinterpret_cast<const float*>(x_->data()),
            reinterpret_cast<const CudaExpertRoute*>(routes_->data()) +
                size_t(layer) * tokens * kTopK,
            tokens, reinterpret_cast<int64_t*>(sums_->data())};
        call.alone = alone;
        if (!experts_->Enqueue(call, &why_)) Fail(why_);
      }
      const double time = timer.End() / options_.layers;
      if (round > 0) times.push_back(time);
    }
    CudaExpertResult result;
    if (!experts_->Finish(&result, &why_)) Fail(why_);
    if (result.status != KernelStatus::kOk)
      Fail("the kernel reported an error");
    Print(tokens, experts, times);
  }

  double copy_speed() const { return copy_speed_; }

 private:
  template <typename T>
  void CopyIn(CudaMemory& memory, const std::vector<T>& values) {
    if (!memory.CopyIn(0, values.data(), values.size() * sizeof(T), &why_)) {
      Fail(why_);
    }
  }

  void FillExperts() {
    const std::vector<uint8_t> record = MakeSampleRecord();
    CopyIn(*weights_, record);
    std::vector<CudaExpertRecord> records;
    for (int e = 0; e < options_.experts; ++e) {
      uint8_t* at = weights_->data() + e * record.size();
      if (e > 0) {
        Check(cudaMemcpyAsync(at, weights_->data(), record.size(),
                              cudaMemcpyDeviceToDevice, stream_));
      }
      records.push_back({at, {0, options_.slices}});
    }
    Check(cudaStreamSynchronize(stream_));
    if (!experts_->SetRecords(records.data(), &why_)) Fail(why_);
  }

  // Different experts for each token, others in each layer; returns how many a
  // layer has on average.
  double DrawRoutes(int tokens) {
    std::vector<CudaExpertRoute> routes;
    std::vector<int> order(options_.experts);
    for (int e = 0; e < options_.experts; ++e) order[e] = e;
    size_t distinct = 0;
    uint64_t draw = 0;
    for (int layer = 0; layer < options_.layers; ++layer) {
      std::set<int> seen;
      for (int t = 0; t < tokens; ++t) {
        for (int k = 0; k < kTopK; ++k) {
          const int other =
              k + static_cast<int>(Mix(++draw) % (options_.experts - k));
          std::swap(order[k], order[other]);
          routes.push_back({order[k], 0.0625f});
          seen.insert(order[k]);
        }
      }
      distinct += seen.size();
    }
    CopyIn(*routes_, routes);
    return static_cast<double>(distinct) / options_.layers;
  }

  void Print(int tokens, double experts, std::vector<double> times) const {
    const double bytes = experts * kShape.slice_offset(options_.slices);
    const double floor = 1e6 * bytes / copy_speed_;
    const double time = Median(times);
    const auto [low, high] = std::minmax_element(times.begin(), times.end());
    std::printf("%6d %8.1f %8.3f %9.1f %9.1f %9.1f..%-9.1f %8.0f %8.3f\n",
                tokens, experts, 1e-9 * bytes, floor, time, *low, *high,
                1e-3 * bytes / time, floor / time);
  }

  const Options& options_;
  std::string why_;
  std::unique_ptr<CudaMemory> weights_;
  std::unique_ptr<CudaMemory> x_;
  std::unique_ptr<CudaMemory> sums_;
  std::unique_ptr<CudaMemory> routes_;
  std::unique_ptr<CudaExperts> experts_;
  cudaStream_t stream_ = nullptr;
  double copy_speed_ = 0;
};

void RunAll(const Options& options) {
  const CudaCard card = FindCard(options.card);
  CudaBench bench(options);
  std::printf("%s: copy %.0f GB/s\n", card.name.c_str(),
              1e-9 * bench.copy_speed());
  std::printf("%6s %8s %8s %9s %9s %20s %8s %8s\n", "tokens", "experts", "GB",
              "floor us", "us", "lowest..highest", "GB/s", "of copy");
  for (const int tokens : options.tokens) bench.Measure(tokens);
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  deltafin::bench::RunAll(deltafin::bench::ParseOptions(argc, argv));
}
