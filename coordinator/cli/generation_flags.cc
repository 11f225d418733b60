#include "coordinator/cli/generation_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "coordinator/engine/logprobs.h"
#include "coordinator/engine/sampler.h"
#include "coordinator/frontend/stop_matcher.h"

namespace deltafin {
namespace {

constexpr char kSamplingGroup[] = "Sampling";

constexpr char kMaxSeed[] = "18446744073709551615";

// The seed flag's text; CLI11 would take too large a number for the largest.
absl::StatusOr<uint64_t> ParseSeed(const std::string& text) {
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seed);
  if (error == std::errc() && rest == end) return seed;
  return UsageError(absl::StrCat("--seed: '", text,
                                 "' is no whole number from 0 to ", kMaxSeed));
}

// The flag of a field of SamplingOptions.
std::string FlagOf(std::string_view option) {
  std::string flag = "--" + std::string(option);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

absl::Status CheckSampling(const SamplingOptions& sampling) {
  // No flag sets a bias, whose ids alone need the vocabulary.
  const auto fault = FindSamplingFault(sampling, /*vocab_size=*/0);
  if (!fault.has_value()) return absl::OkStatus();
  return UsageError(absl::StrCat(FlagOf(fault->option), ": ", fault->value,
                                 ": must be ", fault->range));
}

absl::Status CheckLogprobs(int logprobs) {
  if (logprobs >= 0 && logprobs <= kMaxTopLogprobs) return absl::OkStatus();
  return UsageError(absl::StrCat("--logprobs: ", logprobs, ": must be in [0, ",
                                 kMaxTopLogprobs, "]"));
}

// Told before the model is loaded, which may take minutes.
absl::Status CheckStops(const std::vector<std::string>& stops) {
  const absl::Status status = StopMatcher::Create(stops).status();
  if (status.ok()) return status;
  return UsageError("--" + std::string(status.message()));
}

// The value that switches an option off, for the 0 that says so, too.
float OffAtZero(float value) { return value == 0 ? 1 : value; }

}  // namespace

void GenerationFlags::AddTo(CLI::App& app) {
  app.add_option("--max-new-tokens", max_new_tokens_,
                 "Tokens to generate at most")
      ->capture_default_str()
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  app.add_flag("--ignore-eos", ignore_eos_,
               "Go on after the end-of-message token");
  const auto add = [&app](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(kSamplingGroup);
  };
  add("--temperature", sampling_.temperature,
      "0 takes the likeliest token (default); higher is more varied");
  add("--top-p", sampling_.top_p,
      "Draw from the likeliest tokens that together have this probability "
      "(0 or 1: off)");
  add("--top-k", sampling_.top_k, "Draw from the K likeliest tokens");
  add("--min-p", sampling_.min_p,
      "Drop tokens below this fraction of the likeliest one's probability");
  add("--seed", seed_, "Same seed, same text, whatever else runs (default: 0)");
  add("--presence-penalty", sampling_.presence_penalty,
      "Lower tokens that were generated, once");
  add("--frequency-penalty", sampling_.frequency_penalty,
      "Lower tokens that were generated, each time");
  add("--repetition-penalty", sampling_.repetition_penalty,
      "Divide the score of tokens seen in prompt or text (0 or 1: off)");
  add("--stop", stop_, "End before this text; may be given several times")
      ->allow_extra_args(false);
}

void GenerationFlags::AddLogprobsTo(CLI::App& app) {
  app.add_option("--logprobs", logprobs_,
                 "With --json: log-probability of each token and of its N "
                 "likeliest alternatives")
      ->group(kSamplingGroup);
}

absl::StatusOr<SamplingOptions> GenerationFlags::Sampling() const {
  SamplingOptions sampling = sampling_;
  sampling.top_p = OffAtZero(sampling.top_p);
  sampling.repetition_penalty = OffAtZero(sampling.repetition_penalty);
  ASSIGN_OR_RETURN(sampling.seed, ParseSeed(seed_));
  RETURN_IF_ERROR(CheckSampling(sampling));
  return sampling;
}

absl::StatusOr<GenerationRequest> GenerationFlags::Request() const {
  if (logprobs_.has_value()) RETURN_IF_ERROR(CheckLogprobs(*logprobs_));
  RETURN_IF_ERROR(CheckStops(stop_));
  GenerationRequest request;
  request.max_new_tokens = max_new_tokens_;
  request.ignore_eos = ignore_eos_;
  ASSIGN_OR_RETURN(request.sampling, Sampling());
  request.want_logprobs = logprobs_.has_value();
  request.top_logprobs = logprobs_.value_or(0);
  return request;
}

}  // namespace deltafin
