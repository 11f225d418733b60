// tests/testing/spine_run.h
//
// A spine and its routed experts run token by token in a test: the layer loop
// without scheduler, nodes or sampler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "spine_node/options.h"
#include "spine_node/spine.h"
#include "tests/testing/local_experts.h"

namespace deltafin::testing {

struct SpineRunOptions {
  SpinePrecision precision = SpinePrecision::kBf16;
  std::string kernel = {};  // empty: the best
  int num_threads = 1;
  int64_t generation_bytes = 0;
  std::string cache_dir = {};
  int num_streamed_layers = 0;
};

class SpineRun {
 public:
  // Ends the program with a message if the model cannot be loaded.
  explicit SpineRun(const std::string& model_dir,
                    const SpineRunOptions& options = {});
  // The same around a spine made elsewhere; experts on the best kernel.
  SpineRun(const std::string& model_dir, std::unique_ptr<Spine> spine);

  Spine& spine() { return *spine_; }
  const ModelSpec& spec() const { return spine_->spec(); }
  std::unique_ptr<SequenceState> NewSequence(int64_t max_tokens = 1024);

  // Called with each layer's routed tokens when set.
  std::function<void(int layer, const RoutedTokens&)> on_route;
  // Called when the layer's shared experts have run, before the routed ones
  // are added, when set.
  std::function<void(int layer)> on_shared;

  // One step; the rows of logits the slices ask for. After an error the step
  // is abandoned.
  absl::StatusOr<std::vector<float>> Step(
      std::span<const SequenceSlice> slices);
  // A step of one sequence.
  absl::StatusOr<std::vector<float>> Feed(SequenceState& state,
                                          std::span<const int32_t> ids,
                                          LogitsRows rows = LogitsRows::kLast);
  // Prefills `prompt` in chunks of at most `chunk` tokens (0: whole), then
  // decodes greedily until `count` ids or the end token.
  std::vector<int32_t> Greedy(std::span<const int32_t> prompt, int count,
                              int chunk = 0, bool stop_at_end = false);

 private:
  absl::StatusOr<std::vector<float>> RunStep(
      std::span<const SequenceSlice> slices);
  absl::Status RunLayers();

  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<LocalExperts> experts_;
  std::unique_ptr<Spine> spine_;
};

// Index of the largest value, the lowest among equals.
int32_t ArgMax(std::span<const float> logits);

// `count` ids below `vocab_size`, the same for the same seed; every model of
// the tests knows those below 600.
std::vector<int32_t> MakeIds(int count, uint32_t seed, int vocab_size = 600);

// The bits of values, to be compared exactly.
std::vector<uint32_t> ToBits(std::span<const float> values);

}  // namespace deltafin::testing
