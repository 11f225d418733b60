#include "tests/testing/spine_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "spine_node/spine_loader.h"

namespace deltafin::testing {
namespace {

const KernelTarget& KernelNamed(const std::string& name) {
  if (name.empty()) return BestKernel();
  std::string why;
  const KernelTarget* kernel = FindKernel(name, &why);
  CHECK(kernel != nullptr, why);
  return *kernel;
}

}  // namespace

SpineRun::SpineRun(const std::string& model_dir, const SpineRunOptions& options)
    : threads_(std::make_unique<ThreadPool>(options.num_threads, "spine")) {
  const KernelTarget& kernel = KernelNamed(options.kernel);
  experts_ = std::make_unique<LocalExperts>(model_dir, kernel);
  SpineOptions spine_options;
  spine_options.model_dir = model_dir;
  spine_options.precision = options.precision;
  spine_options.kernel = &kernel;
  spine_options.threads = threads_.get();
  spine_options.cache_dir = options.cache_dir;
  spine_options.generation_bytes = options.generation_bytes;
  spine_options.num_streamed_layers = options.num_streamed_layers;
  auto spine = LoadCpuSpine(spine_options);
  CHECK_OK(spine.status());
  spine_ = *std::move(spine);
}

SpineRun::SpineRun(const std::string& model_dir, std::unique_ptr<Spine> spine)
    : experts_(std::make_unique<LocalExperts>(model_dir, BestKernel())),
      spine_(std::move(spine)) {}

std::unique_ptr<SequenceState> SpineRun::NewSequence(int64_t max_tokens) {
  auto state = spine_->NewSequence(max_tokens);
  CHECK_OK(state.status());
  return *std::move(state);
}

absl::Status SpineRun::RunLayers() {
  for (int layer = 0; layer < spec().num_hidden_layers; ++layer) {
    RETURN_IF_ERROR(spine_->Attend(layer));
    if (!spec().is_moe(layer)) {
      RETURN_IF_ERROR(spine_->DenseMlp(layer));
      continue;
    }
    ASSIGN_OR_RETURN(const RoutedTokens tokens, spine_->Route(layer));
    if (on_route) on_route(layer, tokens);
    ASSIGN_OR_RETURN(const std::vector<int64_t> sums,
                     experts_->Run(layer, tokens));
    RETURN_IF_ERROR(spine_->SharedExperts(layer));
    if (on_shared) on_shared(layer);
    RETURN_IF_ERROR(spine_->AddRoutedExperts(layer, sums));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> SpineRun::Step(
    std::span<const SequenceSlice> slices) {
  auto logits = RunStep(slices);
  if (!logits.ok()) spine_->AbandonStep();
  return logits;
}

absl::StatusOr<std::vector<float>> SpineRun::RunStep(
    std::span<const SequenceSlice> slices) {
  RETURN_IF_ERROR(spine_->Embed(slices));
  RETURN_IF_ERROR(RunLayers());
  ASSIGN_OR_RETURN(const std::span<const float> logits, spine_->Logits());
  return std::vector<float>(logits.begin(), logits.end());
}

absl::StatusOr<std::vector<float>> SpineRun::Feed(SequenceState& state,
                                                  std::span<const int32_t> ids,
                                                  LogitsRows rows) {
  const std::array<SequenceSlice, 1> slices = {{{&state, ids, rows}}};
  return Step(slices);
}

std::vector<int32_t> SpineRun::Greedy(std::span<const int32_t> prompt,
                                      int count, int chunk, bool stop_at_end) {
  auto state = NewSequence(prompt.size() + count);
  std::vector<int32_t> output;
  std::vector<int32_t> next;
  while (static_cast<int>(output.size()) < count) {
    const size_t take =
        chunk == 0 ? prompt.size() : std::min<size_t>(chunk, prompt.size());
    auto logits = Feed(*state, output.empty() ? prompt.first(take)
                                              : std::span<const int32_t>(next));
    CHECK_OK(logits.status());
    if (output.empty()) {
      prompt = prompt.subspan(take);
      if (!prompt.empty()) continue;
    }
    next = {ArgMax(*logits)};
    output.push_back(next[0]);
    if (stop_at_end && next[0] == spec().eos_token_id) break;
  }
  return output;
}

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

std::vector<int32_t> MakeIds(int count, uint32_t seed, int vocab_size) {
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) {
    seed = seed * 1664525u + 1013904223u;
    id = static_cast<int32_t>((seed >> 8) % vocab_size);
  }
  return ids;
}

std::vector<uint32_t> ToBits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  bits.reserve(values.size());
  for (const float value : values) {
    bits.push_back(std::bit_cast<uint32_t>(value));
  }
  return bits;
}

}  // namespace deltafin::testing
