// What guessing ahead gains or costs: the same prompts with guesses off, as the
// policy decides, and forced, over experts in memory or behind a disk of some
// rate; of a model, or of a text in which a given part of the guesses is right.
// All must give the same tokens.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/time/clock.h"
#include "bench/guessable_text.h"
#include "bench/throttled_experts.h"
#include "common/base/check.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/tokenizer.h"
#include "spine_node/spine_loader.h"
#include "tests/testing/fake_routed_experts.h"
#include "tests/testing/local_experts.h"
#include "tests/testing/scripted_spine.h"
#include "tests/testing/token_recorder.h"

namespace deltafin::bench {
namespace {

using testing::FakeRoutedExperts;
using testing::FakeSpineOptions;
using testing::LocalExperts;
using testing::ScriptedSpine;
using testing::TokenRecorder;

struct Options {
  std::string model = "deploy/models/k3-nano";
  std::string text = "deploy/models/k3-nano/eval/validation.txt";
  int prompts = 4;
  int prompt_tokens = 64;
  int tokens = 200;
  int threads = 1;
  ThrottleOptions throttle;
  std::optional<double> right;  // of the guesses, in a text without a model
  double spine_us = 200;        // that each of its layers takes
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

// What reads and layers were to take, however busy the machine is. Of one
// request after the other, each of whose prompts is one step.
class ChargedTime {
 public:
  explicit ChargedTime(double layer_seconds) : layer_seconds_(layer_seconds) {}

  // Before a layer; `reads`: all reads so far.
  void AddLayer(int layer, double reads) {
    if (layer == 0 && ++num_steps_ == 2) decode_begun_ = layers_ + reads;
    layers_ += layer_seconds_;
  }
  // From the first token to the last one of the request, which is over.
  double TakeDecode(double reads) {
    num_steps_ = 0;
    return layers_ + reads - decode_begun_;
  }

 private:
  const double layer_seconds_;
  double layers_ = 0;
  double decode_begun_ = 0;
  int num_steps_ = 0;
};

// What decoding took; null: by the machine's clock.
using TakeSeconds = std::function<double()>;

// Decodes after the prompt in an engine of its own.
std::vector<int32_t> Decode(const Options& options, ForwardPass& forward,
                            const std::vector<int32_t>& prompt,
                            const TakeSeconds& take_seconds, Mode& mode) {
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
  mode.seconds += take_seconds != nullptr
                      ? take_seconds()
                      : absl::ToDoubleSeconds(result.timings.decode);
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

// After each prompt the modes, in turns.
absl::Status Compare(const Options& options,
                     const std::vector<std::vector<int32_t>>& prompts,
                     const TakeSeconds& take_seconds, ForwardPass& forward) {
  std::vector<Mode> modes = {{"off", SpeculationMode::kOff},
                             {"auto", SpeculationMode::kAuto},
                             {"force", SpeculationMode::kForce}};
  for (const std::vector<int32_t>& prompt : prompts) {
    std::vector<int32_t> plain;
    for (Mode& mode : modes) {
      const std::vector<int32_t> output =
          Decode(options, forward, prompt, take_seconds, mode);
      if (plain.empty()) plain = output;
      if (output != plain) return absl::InternalError("the tokens differ");
    }
  }
  PrintModes(modes);
  return absl::OkStatus();
}

double ExpertBytes(const ModelSpec& spec) {
  return static_cast<double>(spec.expert_shape().payload_bytes());
}

absl::Status RunModel(const Options& options) {
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
  LocalExperts local(options.model, BestKernel());
  ThrottledExperts experts(options.throttle, ExpertBytes(spine->spec()),
                           [&](int layer, const RoutedTokens& routed) {
                             return local.Run(layer, routed);
                           });
  ForwardPass forward(*spine, experts);
  std::vector<std::vector<int32_t>> prompts;
  const int64_t stride = std::ssize(ids) / options.prompts;
  for (int i = 0; i < options.prompts; ++i) {
    const auto begin = ids.begin() + i * stride;
    prompts.emplace_back(
        begin, begin + std::min<int64_t>(options.prompt_tokens, stride));
  }
  return Compare(options, prompts, nullptr, forward);
}

absl::Status RunText(const Options& options) {
  const GuessableText text(*options.right);
  FakeSpineOptions fake;
  fake.vocab_size = GuessableText::kVocabSize;
  fake.eos_token_id = GuessableText::kVocabSize - 1;
  ChargedTime charged(options.spine_us / 1e6);
  const ThrottledExperts* reads = nullptr;
  fake.on_attend = [&](int layer) {
    charged.AddLayer(layer, reads->charged_seconds());
    const absl::Time until = absl::Now() + absl::Microseconds(options.spine_us);
    while (absl::Now() < until) std::this_thread::yield();
  };
  ScriptedSpine spine(
      fake, [&text](std::span<const int32_t> ids) { return text.Next(ids); });
  FakeRoutedExperts sums(spine.spec().expert_shape());
  ThrottledExperts experts(
      options.throttle, ExpertBytes(spine.spec()),
      [&sums](int layer, const RoutedTokens& routed)
          -> absl::StatusOr<std::vector<int64_t>> {
        RETURN_IF_ERROR(sums.Start(0, layer, routed));
        ASSIGN_OR_RETURN(const auto found, sums.Wait([] { return false; }));
        return std::vector<int64_t>(found.begin(), found.end());
      });
  reads = &experts;
  ForwardPass forward(spine, experts);
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < options.prompts; ++i) {
    prompts.push_back(GuessableText::Begin(options.prompt_tokens, i));
  }
  return Compare(
      options, prompts,
      [&] { return charged.TakeDecode(experts.charged_seconds()); }, forward);
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
  app.add_option("--throttle", options.throttle.read_rate,
                 "Bytes a second at which experts are read; 0: in memory");
  app.add_option("--tier", options.throttle.tier,
                 "Experts that stay in memory, last used first");
  app.add_option("--right", options.right,
                 "Instead of a model: the part of guesses that is right")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--spine-us", options.spine_us,
                 "With --right: microseconds of each of four layers");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = options.right
                                  ? deltafin::bench::RunText(options)
                                  : deltafin::bench::RunModel(options);
  if (!status.ok()) {
    std::fprintf(stderr, "speculation: %s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
