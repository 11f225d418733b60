// What guessing ahead gains or costs: the same prompts with guesses off, as the
// policy decides, and forced, over experts in memory or behind a disk of some
// rate. All must give the same tokens.

#include <algorithm>
#include <cstdio>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/container/flat_hash_set.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/tokenizer.h"
#include "spine_node/spine_loader.h"
#include "tests/testing/local_experts.h"
#include "tests/testing/token_recorder.h"

namespace deltafin::bench {
namespace {

using testing::LocalExperts;
using testing::TokenRecorder;

struct Options {
  std::string model = "deploy/models/k3-nano";
  std::string text = "deploy/models/k3-nano/eval/validation.txt";
  int prompts = 4;
  int prompt_tokens = 64;
  int tokens = 200;
  int threads = 1;
  double read_rate = 0;  // bytes a second; 0: all in memory
  int tier = 0;          // experts that stay in memory
};

// Experts of this process that are not among the last `tier` used take the time
// of a read.
class ThrottledExperts : public RoutedExperts {
 public:
  ThrottledExperts(const Options& options, const KernelTarget& kernel,
                   const ModelSpec& spec)
      : options_(options),
        local_(options.model, kernel),
        expert_bytes_(
            static_cast<double>(spec.expert_shape().payload_bytes())) {}

  absl::Status Start(uint64_t /*step*/, int layer,
                     const RoutedTokens& routed) override {
    const absl::Time begun = absl::Now();
    ASSIGN_OR_RETURN(sums_, local_.Run(layer, routed));
    const absl::Time computed = absl::Now();
    double read = 0;
    if (options_.read_rate > 0) {
      read = CountMisses(layer, routed) * expert_bytes_ / options_.read_rate;
      // Sleeping is too coarse for what one small expert takes.
      const absl::Time until = computed + absl::Seconds(read);
      while (absl::Now() < until) std::this_thread::yield();
    }
    const double compute = absl::ToDoubleSeconds(computed - begun);
    LayerTrace trace;
    trace.layer = layer;
    trace.waited = compute + read;
    trace.node = "here";
    trace.read = read;
    trace.compute = compute;
    trace_.Add(trace);
    timings_.read += read;
    timings_.compute += compute;
    return absl::OkStatus();
  }
  absl::StatusOr<std::span<const int64_t>> Wait(
      const std::function<bool()>& /*cancelled*/) override {
    return std::span<const int64_t>(sums_);
  }
  void Abandon(uint64_t /*step*/) override {}
  ExpertTimings TakeTimings() override {
    trace_.Clear();
    return std::exchange(timings_, {});
  }
  const ExpertTrace& trace() const override { return trace_; }

 private:
  int CountMisses(int layer, const RoutedTokens& routed) {
    absl::flat_hash_set<int32_t> distinct(routed.experts.begin(),
                                          routed.experts.end());
    int misses = 0;
    for (const int32_t expert : distinct) {
      const std::pair<int, int32_t> key = {layer, expert};
      const auto found = std::find(resident_.begin(), resident_.end(), key);
      if (found == resident_.end()) {
        ++misses;
        resident_.push_front(key);
      } else {
        resident_.splice(resident_.begin(), resident_, found);
      }
    }
    while (std::ssize(resident_) > options_.tier) resident_.pop_back();
    return misses;
  }

  const Options& options_;
  LocalExperts local_;
  const double expert_bytes_;
  std::vector<int64_t> sums_;
  std::list<std::pair<int, int32_t>> resident_;  // last used first
  ExpertTrace trace_;
  ExpertTimings timings_;
};

struct Mode {
  const char* name;
  SpeculationMode mode;
  double seconds = 0;
  int64_t tokens = 0;
  SpeculationStats stats = {};
};

void Add(const SpeculationStats& from, SpeculationStats& to) {
  to.steps += from.steps;
  to.drafted += from.drafted;
  to.accepted += from.accepted;
}

// Decodes after the prompt in an engine of its own.
std::vector<int32_t> Decode(const Options& options, ForwardPass& forward,
                            const std::vector<int32_t>& prompt, Mode& mode) {
  SchedulerOptions engine;
  engine.speculation = mode.mode;
  Scheduler scheduler(engine, forward);
  CHECK_OK(scheduler.Start());
  GenerationRequest request;
  request.prompt_ids = prompt;
  request.max_new_tokens = options.tokens;
  request.ignore_eos = true;
  TokenRecorder recorder;
  CHECK_OK(scheduler.Submit(request, &recorder).status());
  const RequestResult& result = recorder.AwaitFinish();
  CHECK_OK(result.status);
  mode.seconds += absl::ToDoubleSeconds(result.timings.decode);
  mode.tokens += options.tokens - 1;
  Add(scheduler.stats().speculation, mode.stats);
  return recorder.ids();
}

// How often guesses about the text itself are right, without any model.
void PrintTextAcceptance(const std::vector<int32_t>& ids) {
  SuffixDrafter drafter;
  int64_t guesses = 0, right = 0, steps = 0, tokens = 0;
  const std::span<const int32_t> all(ids);
  for (size_t at = 1; at < all.size();) {
    const Draft draft = drafter.Find(all.first(at), 7);
    size_t accepted = 0;
    while (accepted < draft.ids.size() && at + accepted < all.size() &&
           draft.ids[accepted] == all[at + accepted]) {
      ++accepted;
    }
    guesses += draft.ids.empty() ? 0 : 1;
    right += accepted > 0 ? 1 : 0;
    ++steps;
    tokens += static_cast<int64_t>(accepted) + 1;
    at += accepted + 1;
  }
  std::printf(
      "text of %zu tokens: a guess in %.2f of the steps, its first token right "
      "in %.2f, %.3f tokens a step\n",
      ids.size(), static_cast<double>(guesses) / static_cast<double>(steps),
      static_cast<double>(right) /
          static_cast<double>(std::max<int64_t>(guesses, 1)),
      static_cast<double>(tokens) / static_cast<double>(steps));
}

void PrintModes(const std::vector<Mode>& modes) {
  std::printf("%-6s %10s %8s %10s %10s %9s\n", "mode", "tokens/s", "ratio",
              "drafted", "accepted", "a step");
  const double plain = static_cast<double>(modes[0].tokens) / modes[0].seconds;
  for (const Mode& mode : modes) {
    const double rate = static_cast<double>(mode.tokens) / mode.seconds;
    std::printf(
        "%-6s %10.1f %8.3f %10ld %10ld %9.2f\n", mode.name, rate, rate / plain,
        static_cast<long>(mode.stats.drafted),
        static_cast<long>(mode.stats.accepted),
        static_cast<double>(mode.stats.accepted) /
            static_cast<double>(std::max<int64_t>(mode.stats.steps, 1)));
  }
}

absl::Status Run(const Options& options) {
  ThreadPool threads(options.threads, "spine");
  SpineOptions spine_options;
  spine_options.model_dir = options.model;
  spine_options.kernel = &BestKernel();
  spine_options.threads = &threads;
  ASSIGN_OR_RETURN(const std::unique_ptr<Spine> spine,
                   LoadCpuSpine(spine_options));
  ASSIGN_OR_RETURN(const auto tokenizer,
                   Tokenizer::Load(options.model, spine->spec().vocab_size));
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(options.text, uint64_t{1} << 30));
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer->Encode(text));
  ids.resize(std::min<size_t>(ids.size(), 20000));
  PrintTextAcceptance(ids);
  ThrottledExperts experts(options, BestKernel(), spine->spec());
  ForwardPass forward(*spine, experts);
  std::vector<Mode> modes = {{"off", SpeculationMode::kOff},
                             {"auto", SpeculationMode::kAuto},
                             {"force", SpeculationMode::kForce}};
  const int64_t stride = std::ssize(ids) / options.prompts;
  for (int i = 0; i < options.prompts; ++i) {
    const auto begin = ids.begin() + i * stride;
    const std::vector<int32_t> prompt(
        begin, begin + std::min<int64_t>(options.prompt_tokens, stride));
    std::vector<int32_t> plain;
    for (Mode& mode : modes) {
      const std::vector<int32_t> output =
          Decode(options, forward, prompt, mode);
      if (plain.empty()) plain = output;
      if (output != plain) return absl::InternalError("the tokens differ");
    }
  }
  PrintModes(modes);
  return absl::OkStatus();
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  deltafin::bench::Options options;
  CLI::App app("What guessing ahead gains or costs");
  app.add_option("--model", options.model, "Directory in released layout");
  app.add_option("--text", options.text, "Text that the prompts are cut from");
  app.add_option("--prompts", options.prompts, "How many")
      ->check(CLI::Range(1, 1000));
  app.add_option("--prompt-tokens", options.prompt_tokens, "Of each")
      ->check(CLI::Range(1, 4096));
  app.add_option("--tokens", options.tokens, "To generate after each")
      ->check(CLI::Range(2, 4096));
  app.add_option("--threads", options.threads, "Of the spine")
      ->check(CLI::Range(1, 256));
  app.add_option("--throttle", options.read_rate,
                 "Bytes a second at which experts are read; 0: in memory");
  app.add_option("--tier", options.tier,
                 "Experts that stay in memory, last used first");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = deltafin::bench::Run(options);
  if (!status.ok()) {
    std::fprintf(stderr, "speculation: %s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
