// Times every layer of a CPU spine on its own, without routed experts: what
// one layer of each kind costs the coordinator.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "bench/measurement.h"
#include "common/base/check.h"
#include "spine_node/spine_loader.h"

namespace deltafin::bench {
namespace {

constexpr char kHelp[] =
    "usage: full_width_layers --model DIR [--spine bf16|int8] [--threads N]\n"
    "                         [--steps N]\n"
    "Milliseconds a layer of the CPU spine takes in a step of 1 and of 128\n"
    "tokens, median of N steps (default 5), and the sum of the fastest parts:\n"
    "attention, router and latent projections, dense or shared feed-forward.\n"
    "Routed experts are left out; their sums are zero.\n";

struct Options {
  std::string model;
  SpinePrecision precision = SpinePrecision::kBf16;
  int threads = 2;
  int steps = 5;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("full_width_layers", kHelp);
  flags.AddText("--model", options.model);
  flags.Add("--spine", [&](const std::string& value) {
    options.precision =
        value == "int8" ? SpinePrecision::kInt8 : SpinePrecision::kBf16;
    return value == "int8" || value == "bf16";
  });
  flags.AddNumber("--threads", options.threads);
  flags.AddNumber("--steps", options.steps);
  flags.Parse(argc, argv);
  if (options.model.empty()) flags.Refuse("--model is missing");
  return options;
}

// Runs `call` and appends the milliseconds it took.
template <typename Call>
void Time(Call call, std::vector<double>& milliseconds) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  milliseconds.push_back(std::chrono::duration<double, std::milli>(
                             std::chrono::steady_clock::now() - begin)
                             .count());
}

// Of the steps, in milliseconds. Dense layers have no router.
struct Spread {
  double median = 0;
  double fastest = 0;
};

Spread SpreadOf(const std::vector<double>& values) {
  if (values.empty()) return {};
  return {Median(values), *std::min_element(values.begin(), values.end())};
}

// Milliseconds of one layer, one value a step.
struct LayerTimes {
  std::vector<double> attention;
  std::vector<double> route;
  std::vector<double> feed_forward;
  std::vector<double> add_routed;
};

void RunLayer(Spine& spine, int layer, LayerTimes& times) {
  Time([&] { CHECK_OK(spine.Attend(layer)); }, times.attention);
  if (!spine.spec().is_moe(layer)) {
    Time([&] { CHECK_OK(spine.DenseMlp(layer)); }, times.feed_forward);
    return;
  }
  std::vector<int64_t> sums;
  Time(
      [&] {
        const auto routed = spine.Route(layer);
        CHECK_OK(routed.status());
        sums.assign(routed->latent.size(), 0);
      },
      times.route);
  Time([&] { CHECK_OK(spine.SharedExperts(layer)); }, times.feed_forward);
  Time([&] { CHECK_OK(spine.AddRoutedExperts(layer, sums)); },
       times.add_routed);
}

void PrintRow(int num_tokens, const char* layer,
              const std::vector<Spread>& parts) {
  Spread total;
  std::printf("%6d %-12s", num_tokens, layer);
  for (const Spread& part : parts) {
    std::printf(" %9.2f", part.median);
    total.median += part.median;
    total.fastest += part.fastest;
  }
  std::printf(" %9.2f %9.2f\n", total.median, total.fastest);
}

void PrintLayers(const ModelSpec& spec, int num_tokens,
                 const std::vector<LayerTimes>& layers,
                 const std::vector<double>& head) {
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    const bool kda = spec.attention[layer] == AttentionKind::kKda;
    const std::string name = std::to_string(layer) + (kda ? " KDA" : " MLA") +
                             (spec.is_moe(layer) ? "+MoE" : "+dense");
    const LayerTimes& times = layers[layer];
    PrintRow(num_tokens, name.c_str(),
             {SpreadOf(times.attention), SpreadOf(times.route),
              SpreadOf(times.feed_forward), SpreadOf(times.add_routed)});
  }
  PrintRow(num_tokens, "head", {{}, {}, SpreadOf(head), {}});
}

// Times `steps` steps of num_tokens tokens after one that is not counted.
void TimeSteps(Spine& spine, int num_tokens, int steps) {
  auto state = spine.NewSequence(int64_t{num_tokens} * (steps + 1));
  CHECK_OK(state.status());
  std::vector<int32_t> ids(num_tokens);
  for (int i = 0; i < num_tokens; ++i) ids[i] = i % spine.spec().vocab_size;
  const std::vector<SequenceSlice> slices = {
      {state->get(), ids, LogitsRows::kLast}};
  std::vector<LayerTimes> layers;
  std::vector<double> head;
  for (int step = 0; step <= steps; ++step) {
    if (step <= 1) {
      layers.assign(spine.spec().num_hidden_layers, {});
      head.clear();
    }
    CHECK_OK(spine.Embed(slices));
    for (int layer = 0; layer < spine.spec().num_hidden_layers; ++layer) {
      RunLayer(spine, layer, layers[layer]);
    }
    Time([&] { CHECK_OK(spine.Logits().status()); }, head);
  }
  PrintLayers(spine.spec(), num_tokens, layers, head);
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  ThreadPool threads(options.threads, "spine");
  SpineOptions spine_options;
  spine_options.model_dir = options.model;
  spine_options.precision = options.precision;
  spine_options.kernel = &BestKernel();
  spine_options.threads = &threads;
  const auto spine = LoadCpuSpine(spine_options);
  CHECK_OK(spine.status());
  std::printf("%6s %-12s %9s %9s %9s %9s %9s %9s\n", "tokens", "layer",
              "attention", "route", "mlp", "add", "total", "fastest");
  for (const int num_tokens : {1, 128}) {
    TimeSteps(**spine, num_tokens, options.steps);
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) { return deltafin::bench::Main(argc, argv); }
