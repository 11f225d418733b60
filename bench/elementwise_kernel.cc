// Times the spine's elementwise functions, the KDA step and attention on one
// core, on the full model's sizes, with everything in cache.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/chosen_kernels.h"
#include "bench/flags.h"
#include "bench/measurement.h"
#include "kernels/kernel_registry.h"

namespace deltafin::bench {
namespace {

constexpr char kHelp[] =
    "usage: elementwise_kernel [--kernel NAME] [--rounds N] [--json]\n"
    "Median microseconds of a call on one core, functions taking turns.\n";

struct Options {
  std::string kernel;  // empty: every supported one
  int rounds = 15;
  bool json = false;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("elementwise_kernel", kHelp);
  flags.AddText("--kernel", options.kernel);
  flags.AddNumber("--rounds", options.rounds);
  flags.AddSwitch("--json", options.json);
  flags.Parse(argc, argv);
  return options;
}

std::vector<float> Values(size_t n, float low, float high) {
  std::vector<float> values(n);
  uint32_t state = 3;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = low + (high - low) * static_cast<float>(state >> 8) * 0x1p-24f;
  }
  return values;
}

// Inputs of the model's sizes.
struct Inputs {
  static constexpr int kPositions = 2048, kKey = 576, kLatent = 512;
  static constexpr int kHeads = 96;
  std::vector<float> x = Values(12288, -3, 3), w = Values(12288, -1, 1);
  std::vector<float> taps = Values(4 * 12288, -1, 1);
  std::vector<float> y = Values(12288, 0, 1);
  std::vector<float> decay = Values(128, 0.5f, 0.99f);
  std::vector<float> state = Values(128 * 128, -1, 1);
  std::vector<float> query = Values(size_t{kHeads} * kKey, -0.2f, 0.2f);
  std::vector<float> keys = Values(size_t{kPositions} * kKey, -1, 1);
  std::vector<float> scores = Values(size_t{kHeads} * kPositions, 0, 1);
  std::vector<float> out = Values(size_t{kHeads} * kLatent, 0, 1);
  std::vector<int64_t> sums = std::vector<int64_t>(3584, int64_t{1} << 40);
};

struct Function {
  const char* name;
  int calls;  // of one sample
  std::function<void(const ElementwiseKernel&, Inputs&)> run;
};

void Attend(const ElementwiseKernel& k, Inputs& in, int heads) {
  AttentionArgs args;
  args.num_queries = heads;
  args.query = in.query.data();
  args.keys = in.keys.data();
  args.key_dim = Inputs::kKey;
  args.value_dim = Inputs::kLatent;
  args.num_positions = Inputs::kPositions;
  args.scale = 0.072f;
  args.scores = in.scores.data();
  args.out = in.out.data();
  k.attention(args);
}

void Mix(const ElementwiseKernel& k, Inputs& in) {
  const float* candidates[9];
  for (int j = 0; j < 9; ++j) candidates[j] = in.taps.data() + j * 4096;
  k.attention_residual(candidates, 9, in.w.data(), 7168, 1e-5f, in.y.data());
}

void KdaStep(const ElementwiseKernel& k, Inputs& in) {
  KdaStepArgs args;
  args.dim = 128;
  args.q = in.x.data();
  args.k = in.w.data();
  args.v = in.x.data() + 128;
  args.decay = in.decay.data();
  args.beta = 0.01f;
  args.state = in.state.data();
  args.out = in.y.data();
  k.kda_step(args);
}

const std::vector<Function>& Functions() {
  using Kernel = ElementwiseKernel;
  static const std::vector<Function> functions = {
      {"SiTU, 3072", 50,
       [](const Kernel& k, Inputs& in) {
         k.situ(in.x.data(), in.w.data(), 3072, {}, in.y.data());
       }},
      {"RMSNorm, 7168", 50,
       [](const Kernel& k, Inputs& in) {
         k.rms_norm(in.x.data(), in.w.data(), 7168, 1e-5f, in.y.data());
       }},
      {"short convolution, 12288", 20,
       [](const Kernel& k, Inputs& in) {
         const float* u = in.x.data();
         k.short_conv(in.taps.data(), u, u, u, u, 12288, in.y.data());
       }},
      {"KDA decay, 128", 500,
       [](const Kernel& k, Inputs& in) {
         k.kda_decay(in.x.data(), in.w.data(), 128, 1.5f, -5.0f, in.y.data());
       }},
      {"KDA step, one head of 128", 100, KdaStep},
      {"attention residual, 9 x 7168", 20, Mix},
      {"expert sums to f32, 3584", 200,
       [](const Kernel& k, Inputs& in) {
         k.from_fixed(in.sums.data(), 3584, in.y.data());
       }},
      {"attention, 2048 positions, 1 head", 3,
       [](const Kernel& k, Inputs& in) { Attend(k, in, 1); }},
      {"attention, 2048 positions, 96 heads", 1,
       [](const Kernel& k, Inputs& in) { Attend(k, in, Inputs::kHeads); }},
  };
  return functions;
}

double TimeOnce(const Function& f, const ElementwiseKernel& kernel,
                Inputs& in) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < f.calls; ++i) f.run(kernel, in);
  const std::chrono::duration<double, std::micro> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count() / f.calls;
}

void RunTarget(const Options& options, const KernelTarget& target) {
  const auto& functions = Functions();
  Inputs inputs;
  std::vector<std::vector<double>> times(functions.size());
  const int rounds = std::string(target.name) == "reference"
                         ? std::min(options.rounds, 3)
                         : options.rounds;
  for (int round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < functions.size(); ++i) {
      const double us = TimeOnce(functions[i], target.elementwise, inputs);
      if (round > 0) times[i].push_back(us);  // the first one warms up
    }
  }
  for (size_t i = 0; i < functions.size(); ++i) {
    std::printf(options.json
                    ? "{\"kernel\": \"%s\", \"function\": \"%s\", \"us\": "
                      "%.2f}\n"
                    : "%-10s %-36s %10.2f us\n",
                target.name, functions[i].name, Median(times[i]));
  }
}

void RunAll(const Options& options) {
  SetContractFloatingPointMode();
  for (const KernelTarget* target : ChosenKernels(options.kernel)) {
    RunTarget(options, *target);
  }
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  deltafin::bench::RunAll(deltafin::bench::ParseOptions(argc, argv));
}
