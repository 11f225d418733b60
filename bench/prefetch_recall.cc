// Can a layer's experts be known while those of the layer before are still
// away? How many of the chosen ones the router names early, and how many the
// most popular ones of the layer would have been.

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/tokenizer.h"
#include "nlohmann/json.hpp"
#include "spine_node/cpu/layer_context.h"
#include "tests/testing/spine_run.h"

namespace deltafin::bench {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;

struct Options {
  std::string model = "deploy/models/k3-nano";
  std::string text = "deploy/models/k3-nano/eval/validation.txt";
  int window = 1024;
  int64_t max_tokens = 40000;
  bool json = false;
};

struct Choices {
  std::vector<int32_t> chosen;     // [tokens, K]
  std::vector<int32_t> predicted;  // as long; empty without a prediction
};

// Runs the text through the spine and notes, for each layer, what was chosen
// and what was predicted one layer before.
absl::StatusOr<std::vector<Choices>> Record(const Options& options,
                                            testing::SpineRun& run) {
  ASSIGN_OR_RETURN(const auto tokenizer,
                   Tokenizer::Load(options.model, run.spec().vocab_size));
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(options.text, kMaxTextBytes));
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->Encode(text));
  const int num_layers = run.spec().num_hidden_layers;
  std::vector<Choices> layers(num_layers);
  run.on_route = [&](int layer, const RoutedTokens& tokens) {
    layers[layer].chosen.insert(layers[layer].chosen.end(),
                                tokens.experts.begin(), tokens.experts.end());
  };
  run.on_shared = [&](int layer) {
    if (layer + 1 == num_layers) return;
    const auto predicted = run.spine().PredictExperts(layer + 1);
    auto& into = layers[layer + 1].predicted;
    into.insert(into.end(), predicted.begin(), predicted.end());
  };
  std::span<const int32_t> rest(ids);
  rest = rest.first(std::min<size_t>(rest.size(), options.max_tokens));
  while (!rest.empty()) {
    const auto window =
        rest.first(std::min<size_t>(rest.size(), options.window));
    rest = rest.subspan(window.size());
    const auto state = run.NewSequence(window.size());
    for (size_t i = 0; i < window.size(); i += kTokenGroup) {
      const size_t count = std::min<size_t>(kTokenGroup, window.size() - i);
      RETURN_IF_ERROR(
          run.Feed(*state, window.subspan(i, count), LogitsRows::kNone)
              .status());
    }
  }
  return layers;
}

struct Recall {
  int layer = 0;
  double predicted = 0;
  double popular = 0;
};

// The share of the second half's choices among K candidates for each token:
// those predicted, and the K most chosen of the first half.
Recall Measure(int layer, const Choices& choices, int num_experts, int top_k) {
  const size_t num_tokens = choices.chosen.size() / top_k;
  const size_t first = num_tokens / 2;
  std::vector<int64_t> uses(num_experts);
  for (size_t i = 0; i < first * top_k; ++i) ++uses[choices.chosen[i]];
  std::vector<int32_t> popular(num_experts);
  std::iota(popular.begin(), popular.end(), 0);
  std::stable_sort(popular.begin(), popular.end(),
                   [&](int32_t a, int32_t b) { return uses[a] > uses[b]; });
  popular.resize(top_k);
  int64_t hits_predicted = 0;
  int64_t hits_popular = 0;
  for (size_t t = first; t < num_tokens; ++t) {
    const auto predicted =
        std::span(choices.predicted).subspan(t * top_k, top_k);
    for (const int32_t expert :
         std::span(choices.chosen).subspan(t * top_k, top_k)) {
      hits_predicted += std::count(predicted.begin(), predicted.end(), expert);
      hits_popular += std::count(popular.begin(), popular.end(), expert);
    }
  }
  const double all = static_cast<double>((num_tokens - first) * top_k);
  return {layer, static_cast<double>(hits_predicted) / all,
          static_cast<double>(hits_popular) / all};
}

void Print(const Options& options, const std::vector<Recall>& rows,
           const Recall& mean) {
  if (options.json) {
    nlohmann::json all = {{"model", options.model},
                          {"transferable_to_k3", false},
                          {"mean_recall", mean.predicted},
                          {"mean_recall_popular", mean.popular}};
    for (const Recall& row : rows) {
      all["layers"].push_back({{"layer", row.layer},
                               {"recall", row.predicted},
                               {"recall_popular", row.popular}});
    }
    std::puts(all.dump(2).c_str());
    return;
  }
  std::puts(
      "Recall of as many experts as a token uses, second half of the text. "
      "Routes of this\nmodel say nothing about K3's.\n\n"
      "layer  predicted  most popular");
  for (const Recall& row : rows) {
    std::printf("%5d  %9.3f  %12.3f\n", row.layer, row.predicted, row.popular);
  }
  std::printf(" mean  %9.3f  %12.3f\n", mean.predicted, mean.popular);
}

absl::Status Run(const Options& options) {
  testing::SpineRun run(options.model);
  ASSIGN_OR_RETURN(const std::vector<Choices> layers, Record(options, run));
  std::vector<Recall> rows;
  Recall mean;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].predicted.empty()) continue;
    rows.push_back(Measure(static_cast<int>(layer), layers[layer],
                           run.spec().num_experts,
                           run.spec().num_experts_per_token));
    mean.predicted += rows.back().predicted;
    mean.popular += rows.back().popular;
  }
  mean.predicted /= static_cast<double>(rows.size());
  mean.popular /= static_cast<double>(rows.size());
  Print(options, rows, mean);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app(
      "How many of a layer's experts are known while those of the layer before "
      "are away");
  Options options;
  app.add_option("--model", options.model, "Directory of the model");
  app.add_option("--text", options.text, "Text to run through it");
  app.add_option("--window", options.window, "Tokens of one context")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--max-tokens", options.max_tokens, "Tokens to use")
      ->check(CLI::Range(4, 1 << 30));
  app.add_flag("--json", options.json, "One JSON object instead of the table");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "prefetch_recall: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) { return deltafin::bench::Main(argc, argv); }
