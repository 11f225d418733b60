// A spine of which some layers are read for every step, against the same spine
// in memory: same logits, time a step, and the rate at which layers arrive
// against plain direct reads of the same files and against fio.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/measurement.h"
#include "bench/plain_reads.h"
#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/memory_budget.h"
#include "spine_node/memory_needs.h"
#include "spine_node/residency.h"
#include "spine_node/spine_loader.h"

namespace deltafin::bench {
namespace {

constexpr char kHelp[] =
    "usage: spine_stream --model DIR [--spine bf16|int8] [--spine-ram SIZE]\n"
    "                    [--threads N] [--steps N] [--experts-ms N]\n"
    "Runs --steps (default 5) steps of one token and one of 128 through the\n"
    "spine in memory, then with at most --spine-ram (default: half of it, or\n"
    "the least it can do with); routed experts are left out, but each layer\n"
    "waits --experts-ms (default 0) for them. Prints milliseconds a step, "
    "bytes\n"
    "read and their rate, that of plain direct reads of the same files in the\n"
    "same run, and that of fio where it is installed. Fails unless all logits\n"
    "are the same bits. Spine files stay in the model's folder.\n";

struct Options {
  std::string model;
  SpinePrecision precision = SpinePrecision::kBf16;
  uint64_t spine_ram = 0;
  int threads = 2;
  int steps = 5;
  int experts_ms = 0;
};

[[noreturn]] void Refuse(const std::string& why) {
  std::fprintf(stderr, "spine_stream: %s\n%s", why.c_str(), kHelp);
  std::exit(64);
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--help") {
      std::fputs(kHelp, stdout);
      std::exit(0);
    }
    if (i + 1 == argc) Refuse("unknown flag or missing value");
    const std::string value = argv[i + 1];
    if (flag == "--model") {
      options.model = value;
    } else if (flag == "--spine" && (value == "bf16" || value == "int8")) {
      options.precision =
          value == "int8" ? SpinePrecision::kInt8 : SpinePrecision::kBf16;
    } else if (flag == "--spine-ram" && ParseByteSize(value).ok()) {
      options.spine_ram = *ParseByteSize(value);
    } else if (flag == "--threads") {
      options.threads = std::max(1, std::atoi(value.c_str()));
    } else if (flag == "--steps") {
      options.steps = std::max(1, std::atoi(value.c_str()));
    } else if (flag == "--experts-ms") {
      options.experts_ms = std::max(0, std::atoi(value.c_str()));
    } else {
      Refuse("unknown flag or value: " + flag);
    }
  }
  if (options.model.empty()) Refuse("--model is missing");
  return options;
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

// What running a spine gave.
struct Outcome {
  double one_token_ms = 0;  // a step, median
  double prompt_ms = 0;     // a step of 128
  SpineTimings timings;     // of the steps of one token
  std::vector<Xxh128> logits;
};

class SpineBench {
 public:
  explicit SpineBench(const Options& options)
      : options_(options), threads_(options.threads, "spine") {}

  Outcome Run(int num_streamed) {
    SpineOptions load;
    load.model_dir = options_.model;
    load.precision = options_.precision;
    load.kernel = &BestKernel();
    load.threads = &threads_;
    load.num_streamed_layers = num_streamed;
    const auto begin = std::chrono::steady_clock::now();
    const auto spine = LoadCpuSpine(load);
    CHECK_OK(spine.status());
    std::printf("%d layers streamed: %s in memory, loaded in %.1f s\n",
                num_streamed,
                FormatByteSize((*spine)->description().weight_bytes).c_str(),
                SecondsSince(begin));
    return TimeSteps(**spine);
  }

 private:
  Outcome TimeSteps(Spine& spine) {
    Outcome outcome;
    auto state = spine.NewSequence(128 + options_.steps + 1);
    CHECK_OK(state.status());
    outcome.prompt_ms = Step(spine, **state, 128, outcome);
    Step(spine, **state, 1, outcome);
    spine.TakeTimings();
    std::vector<double> times;
    for (int i = 0; i < options_.steps; ++i) {
      times.push_back(Step(spine, **state, 1, outcome));
    }
    outcome.one_token_ms = Median(times);
    outcome.timings = spine.TakeTimings();
    return outcome;
  }

  // Milliseconds.
  double Step(Spine& spine, SequenceState& state, int num_tokens,
              Outcome& outcome) {
    std::vector<int32_t> ids(num_tokens);
    for (int i = 0; i < num_tokens; ++i) {
      ids[i] = (37 * i + num_tokens) % spine.spec().vocab_size;
    }
    const std::vector<SequenceSlice> slices = {{&state, ids}};
    const auto begin = std::chrono::steady_clock::now();
    CHECK_OK(spine.Embed(slices));
    for (int layer = 0; layer < spine.spec().num_hidden_layers; ++layer) {
      RunLayer(spine, layer);
    }
    const auto logits = spine.Logits();
    CHECK_OK(logits.status());
    const double seconds = SecondsSince(begin);
    outcome.logits.push_back(
        Xxh3Digest({reinterpret_cast<const uint8_t*>(logits->data()),
                    logits->size() * sizeof(float)}));
    return 1e3 * seconds;
  }

  void RunLayer(Spine& spine, int layer) {
    CHECK_OK(spine.Attend(layer));
    if (!spine.spec().is_moe(layer)) {
      CHECK_OK(spine.DenseMlp(layer));
      return;
    }
    const auto routed = spine.Route(layer);
    CHECK_OK(routed.status());
    const std::vector<int64_t> sums(routed->latent.size());
    CHECK_OK(spine.SharedExperts(layer));
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.experts_ms));
    CHECK_OK(spine.AddRoutedExperts(layer, sums));
  }

  const Options& options_;
  ThreadPool threads_;
};

SpineResidency Choose(const Options& options, const SpineMemoryNeeds& needs) {
  const uint64_t most = options.spine_ram > 0
                            ? options.spine_ram
                            : static_cast<uint64_t>(needs.weight_bytes) / 2;
  return ChooseResidency(needs.weight_bytes, needs.layer_row_bytes, most);
}

void Compare(const Options& options, const Outcome& resident,
             const Outcome& streamed) {
  std::printf("a step of 1 token    in memory %9.2f ms, streamed %9.2f ms\n",
              resident.one_token_ms, streamed.one_token_ms);
  std::printf("a step of 128 tokens in memory %9.2f ms, streamed %9.2f ms\n",
              resident.prompt_ms, streamed.prompt_ms);
  const SpineTimings& timings = streamed.timings;
  std::printf(
      "in %d steps of 1 token: %s read at %.2f GB/s, waited for %.2f s\n",
      options.steps,
      FormatByteSize(static_cast<uint64_t>(timings.stream_bytes)).c_str(),
      1e-9 * static_cast<double>(timings.stream_bytes) / timings.stream,
      timings.read);
}

// Rates of the files that streamed, after all computing is done.
void CompareDrive(const Options& options, const SpineResidency& residency,
                  int num_layers) {
  std::vector<std::string> files;
  for (int layer = 0; layer < num_layers; ++layer) {
    if (!StreamsLayer(layer, num_layers, residency.num_streamed)) continue;
    char name[64];
    std::snprintf(name, sizeof(name), "/deltafin-spine-%s/layer-%02d.spine",
                  options.precision == SpinePrecision::kInt8 ? "int8" : "bf16",
                  layer);
    files.push_back(options.model + name);
  }
  std::vector<double> ratios;
  for (int round = 0; round < 3; ++round) {
    const double plain = PlainRate(files);
    const double stream = StreamRate(files);
    ratios.push_back(stream / plain);
    std::printf(
        "plain direct reads %.2f GB/s, stream with its check %.2f GB/s\n",
        1e-9 * plain, 1e-9 * stream);
  }
  std::printf("stream of plain reads %.3f (median)\n", Median(ratios));
  const double fio = FioRate(files);
  if (fio > 0) {
    std::printf("fio, the same pattern %.2f GB/s\n", 1e-9 * fio);
  } else {
    std::printf("fio is not installed or failed\n");
  }
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  const auto spec = ModelSpec::Load(options.model);
  CHECK_OK(spec.status());
  const SpineMemoryNeeds needs = SpineNeeds(*spec, options.precision);
  const SpineResidency residency = Choose(options, needs);
  std::printf("spine %s; %d of %d layers stream: %s in memory, %s a step\n",
              FormatByteSize(needs.weight_bytes).c_str(),
              residency.num_streamed, spec->num_hidden_layers,
              FormatByteSize(residency.memory_bytes).c_str(),
              FormatByteSize(residency.step_bytes).c_str());
  if (residency.num_streamed == 0) Refuse("all of the spine fits");
  SpineBench bench(options);
  const Outcome resident = bench.Run(0);
  const Outcome streamed = bench.Run(residency.num_streamed);
  Compare(options, resident, streamed);
  CompareDrive(options, residency, spec->num_hidden_layers);
  const bool same = resident.logits == streamed.logits;
  std::printf("logits: %s\n", same ? "the same bits" : "DIFFERENT");
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) { return deltafin::bench::Main(argc, argv); }
