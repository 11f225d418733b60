// A spine of which some layers are read for every step, against the same spine
// in memory: same logits, time a step and a layer, and the rate at which layers
// arrive against plain direct reads of the same files and against fio.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/flags.h"
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
    "                    [--cgroup FOLDER | --blocks N]\n"
    "Runs --steps (default 5) steps of one token and one of 128 through the\n"
    "spine in memory, then with at most --spine-ram (default: half of it, or\n"
    "the least it can do with); routed experts are left out, but each layer\n"
    "waits --experts-ms (default 0) for them. The second run enters the "
    "memory\n"
    "group FOLDER (of cgroup version 1 or 2) first. Prints milliseconds a "
    "step\n"
    "and a layer, bytes read and their rate, that of plain direct reads of "
    "the\n"
    "same files in the same run, and that of fio where it is installed. Fails\n"
    "unless all logits are the same bits. Spine files stay in the model's\n"
    "folder. --blocks: both spines in memory at once, N times --steps steps\n"
    "of each in turn, and the ratio of their medians, nothing else.\n";

struct Options {
  std::string model;
  SpinePrecision precision = SpinePrecision::kBf16;
  uint64_t spine_ram = 0;
  int threads = 2;
  int steps = 5;
  int experts_ms = 0;
  int blocks = 0;  // 0: one after the other
  std::string cgroup;
};

Flags FlagsOf(Options& options) {
  Flags flags("spine_stream", kHelp);
  flags.AddText("--model", options.model);
  flags.Add("--spine", [&](const std::string& value) {
    options.precision =
        value == "int8" ? SpinePrecision::kInt8 : SpinePrecision::kBf16;
    return value == "int8" || value == "bf16";
  });
  flags.Add("--spine-ram", [&](const std::string& value) {
    const auto bytes = ParseByteSize(value);
    if (bytes.ok()) options.spine_ram = *bytes;
    return bytes.ok();
  });
  flags.AddNumber("--threads", options.threads);
  flags.AddNumber("--steps", options.steps);
  flags.AddNumber("--experts-ms", options.experts_ms, 0);
  flags.AddText("--cgroup", options.cgroup);
  flags.AddNumber("--blocks", options.blocks);
  return flags;
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

// What running a spine gave.
struct Outcome {
  double one_token_ms = 0;  // a step, median
  double prompt_ms = 0;     // a step of 128
  // Of each layer in each step of one token.
  std::vector<std::vector<double>> layer_ms;
  SpineTimings timings;  // of the steps of one token
  std::vector<Xxh128> logits;
};

class SpineBench {
 public:
  explicit SpineBench(const Options& options)
      : options_(options), threads_(options.threads, "spine") {}

  Outcome Run(int num_streamed) { return TimeSteps(*Load(num_streamed)); }

  std::unique_ptr<Spine> Load(int num_streamed) {
    SpineOptions load;
    load.model_dir = options_.model;
    load.precision = options_.precision;
    load.kernel = &BestKernel();
    load.threads = &threads_;
    load.num_streamed_layers = num_streamed;
    const auto begin = std::chrono::steady_clock::now();
    auto spine = LoadCpuSpine(load);
    CHECK_OK(spine.status());
    std::printf("%d layers streamed: %s in memory, loaded in %.1f s\n",
                num_streamed,
                FormatByteSize((*spine)->description().weight_bytes).c_str(),
                SecondsSince(begin));
    return *std::move(spine);
  }

  // A spine and a sequence that goes on from block to block.
  struct Runner {
    std::unique_ptr<Spine> spine;
    std::unique_ptr<SequenceState> state;
    Outcome outcome;
    std::vector<double> block_ms;  // medians of its blocks
  };
  Runner MakeRunner(int num_streamed) {
    Runner runner{Load(num_streamed), nullptr, {}, {}};
    auto state =
        runner.spine->NewSequence((options_.steps + 1) * (options_.blocks + 1));
    CHECK_OK(state.status());
    runner.state = *std::move(state);
    return runner;
  }
  // The first step does not count: layers were read ahead of it meanwhile.
  void RunBlock(Runner& runner) {
    std::vector<double> times;
    for (int i = 0; i <= options_.steps; ++i) {
      times.push_back(Step(*runner.spine, *runner.state, 1, runner.outcome));
    }
    times.erase(times.begin());
    runner.block_ms.push_back(Median(times));
  }

 private:
  Outcome TimeSteps(Spine& spine) {
    Outcome outcome;
    auto state = spine.NewSequence(128 + options_.steps + 1);
    CHECK_OK(state.status());
    outcome.prompt_ms = Step(spine, **state, 128, outcome);
    Step(spine, **state, 1, outcome);
    spine.TakeTimings();
    outcome.layer_ms.assign(spine.spec().num_hidden_layers, {});
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
      const auto layer_begin = std::chrono::steady_clock::now();
      RunLayer(spine, layer);
      if (outcome.layer_ms.empty()) continue;
      outcome.layer_ms[layer].push_back(1e3 * SecondsSince(layer_begin));
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

// Of one kind of layers.
double MeanLayer(const Outcome& outcome, const SpineResidency& residency,
                 bool streams) {
  const int num_layers = static_cast<int>(outcome.layer_ms.size());
  double sum = 0;
  int count = 0;
  for (int layer = 0; layer < num_layers; ++layer) {
    if (StreamsLayer(layer, num_layers, residency.num_streamed) != streams) {
      continue;
    }
    sum += Median(outcome.layer_ms[layer]);
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

void Compare(const Options& options, const SpineResidency& residency,
             const Outcome& resident, const Outcome& streamed) {
  std::printf("a step of 1 token    in memory %9.2f ms, streamed %9.2f ms\n",
              resident.one_token_ms, streamed.one_token_ms);
  std::printf("a step of 128 tokens in memory %9.2f ms, streamed %9.2f ms\n",
              resident.prompt_ms, streamed.prompt_ms);
  for (const bool streams : {true, false}) {
    std::printf(
        "a layer that %s, mean of 1 token: %.2f ms in memory, %.2f ms "
        "now\n",
        streams ? "streams" : "stays  ",
        MeanLayer(resident, residency, streams),
        MeanLayer(streamed, residency, streams));
  }
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
                  const Outcome& resident, const Outcome& streamed) {
  const int num_layers = static_cast<int>(resident.layer_ms.size());
  std::vector<std::string> files;
  for (int layer = 0; layer < num_layers; ++layer) {
    if (!StreamsLayer(layer, num_layers, residency.num_streamed)) continue;
    char name[64];
    std::snprintf(name, sizeof(name), "/deltafin-spine-%s/layer-%02d.spine",
                  options.precision == SpinePrecision::kInt8 ? "int8" : "bf16",
                  layer);
    files.push_back(options.model + name);
  }
  std::vector<double> plain, stream, ratios;
  for (int round = 0; round < 5; ++round) {
    plain.push_back(PlainRate(files));
    stream.push_back(StreamRate(files));
    ratios.push_back(stream.back() / plain.back());
  }
  std::printf("plain direct reads %.2f GB/s, stream with its check %.2f GB/s\n",
              1e-9 * Median(plain), 1e-9 * Median(stream));
  std::printf("stream of plain reads %.3f (median)\n", Median(ratios));
  std::printf("plain reads that keep nothing %.2f GB/s\n",
              1e-9 * SmallBufferRate(files));
  const double fio = FioRate(files);
  if (fio > 0) {
    std::printf("fio, the same pattern %.2f GB/s, stream of fio %.3f\n",
                1e-9 * fio, Median(stream) / fio);
  } else {
    std::printf("fio is not installed or failed\n");
  }
  const double read_ms =
      1e3 * static_cast<double>(residency.step_bytes) / Median(plain);
  std::printf(
      "a step of 1 token, streamed, of the longer of plain reads (%.2f ms) and "
      "computing: %.3f\n",
      read_ms,
      streamed.one_token_ms / std::max(read_ms, resident.one_token_ms));
}

// Steps of a spine in memory and of one that streams, block by block.
bool RunInTurn(const Options& options, int num_streamed) {
  SpineBench bench(options);
  SpineBench::Runner resident = bench.MakeRunner(0);
  SpineBench::Runner streamed = bench.MakeRunner(num_streamed);
  std::vector<double> ratios;
  for (int block = 0; block < options.blocks; ++block) {
    const bool streamed_first = block % 2 == 1;
    bench.RunBlock(streamed_first ? streamed : resident);
    bench.RunBlock(streamed_first ? resident : streamed);
    ratios.push_back(streamed.block_ms.back() / resident.block_ms.back());
    std::printf("block %d: in memory %.2f ms, streamed %.2f ms, ratio %.3f\n",
                block + 1, resident.block_ms.back(), streamed.block_ms.back(),
                ratios.back());
  }
  std::printf("streamed of in memory: %.3f (median of %d blocks)\n",
              Median(ratios), options.blocks);
  const bool same = resident.outcome.logits == streamed.outcome.logits;
  std::printf("logits: %s\n", same ? "the same bits" : "DIFFERENT");
  return same;
}

void EnterGroup(const std::string& folder) {
  if (folder.empty()) return;
  std::ofstream file(folder + "/cgroup.procs");
  file << getpid() << std::flush;
  CHECK(file.good(), "the memory group cannot be entered");
}

void PrintGroup(const std::string& folder) {
  for (const char* name : {"/memory.limit_in_bytes", "/memory.max",
                           "/memory.max_usage_in_bytes", "/memory.peak"}) {
    std::string value;
    if (folder.empty() || !(std::ifstream(folder + name) >> value)) continue;
    std::printf("%s %s\n", name + 1, value.c_str());
  }
}

int Main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a run takes minutes
  Options options;
  const Flags flags = FlagsOf(options);
  flags.Parse(argc, argv);
  if (options.model.empty()) flags.Refuse("--model is missing");
  if (options.blocks > 0 && !options.cgroup.empty()) {
    flags.Refuse("--blocks goes without --cgroup");
  }
  const auto spec = ModelSpec::Load(options.model);
  CHECK_OK(spec.status());
  const SpineMemoryNeeds needs = SpineNeeds(*spec, options.precision);
  const SpineResidency residency = Choose(options, needs);
  std::printf("spine %s; %d of %d layers stream: %s in memory, %s a step\n",
              FormatByteSize(needs.weight_bytes).c_str(),
              residency.num_streamed, spec->num_hidden_layers,
              FormatByteSize(residency.memory_bytes).c_str(),
              FormatByteSize(residency.step_bytes).c_str());
  if (residency.num_streamed == 0) flags.Refuse("all of the spine fits");
  if (options.blocks > 0) {
    return RunInTurn(options, residency.num_streamed) ? EXIT_SUCCESS
                                                      : EXIT_FAILURE;
  }
  SpineBench bench(options);
  const Outcome resident = bench.Run(0);
  EnterGroup(options.cgroup);
  const Outcome streamed = bench.Run(residency.num_streamed);
  PrintGroup(options.cgroup);
  Compare(options, residency, resident, streamed);
  const bool same = resident.logits == streamed.logits;
  std::printf("logits: %s\n", same ? "the same bits" : "DIFFERENT");
  CompareDrive(options, residency, resident, streamed);
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) { return deltafin::bench::Main(argc, argv); }
