#include "coordinator/cli/endpoint_loss.h"

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Json = nlohmann::json;

absl::Status NoScores(std::string_view what) {
  return absl::InternalError(fmt::format(
      "the endpoint's answer has no log-probabilities of the prompt ({}); it "
      "must honour echo, logprobs and max_tokens 0 in /completions",
      what));
}

// The window without BOS, which is no text.
std::span<const int32_t> TextIds(const std::vector<int32_t>& window) {
  return std::span(window).subspan(1);
}

absl::Status SetPrompt(WindowForm form, const std::vector<int32_t>& window,
                       const Tokenizer& tokenizer, Json& request) {
  if (form == WindowForm::kIds) {
    request["prompt"] = window;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(TextIds(window)));
  request["prompt"] = text;
  return absl::OkStatus();
}

absl::Status MeasureWindow(const EndpointModel& model,
                           const std::vector<int32_t>& window,
                           const Tokenizer& tokenizer, LossMeter& loss) {
  Json request;
  request["model"] = model.name;
  RETURN_IF_ERROR(SetPrompt(model.form, window, tokenizer, request));
  request["max_tokens"] = 0;
  request["echo"] = true;
  request["logprobs"] = 0;
  ASSIGN_OR_RETURN(const std::string answer,
                   PostJson(model.endpoint, "/completions", request.dump()));
  int64_t predicted_bytes = -1;
  if (model.form == WindowForm::kIds) {
    predicted_bytes = 0;
    for (const int32_t id : TextIds(window)) {
      predicted_bytes += std::ssize(tokenizer.vocabulary().Bytes(id));
    }
  }
  return AddScores(answer, predicted_bytes, loss);
}

}  // namespace

absl::Status AddScores(std::string_view answer, int64_t predicted_bytes,
                       LossMeter& loss) {
  const Json json = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer place("/choices/0/logprobs");
  if (json.is_discarded() || !json.contains(place) ||
      !json[place].is_object()) {
    return NoScores("no choices[0].logprobs");
  }
  const Json& logprobs = json[place];
  if (!logprobs.contains("tokens") || !logprobs.contains("token_logprobs") ||
      !logprobs["tokens"].is_array() ||
      !logprobs["token_logprobs"].is_array() ||
      logprobs["tokens"].size() != logprobs["token_logprobs"].size() ||
      logprobs["tokens"].size() < 2) {
    return NoScores("not as many tokens as token_logprobs, or less than two");
  }
  const Json& scores = logprobs["token_logprobs"];
  for (size_t i = 1; i < scores.size(); ++i) {
    const Json& token = logprobs["tokens"][i];
    if (!scores[i].is_number() || !token.is_string()) {
      return NoScores(fmt::format("token {}", i));
    }
    int64_t bytes = std::ssize(token.get_ref<const std::string&>());
    if (predicted_bytes >= 0) bytes = i == 1 ? predicted_bytes : 0;
    loss.Add(-scores[i].get<double>(), bytes);
  }
  return absl::OkStatus();
}

absl::Status MeasureEndpoint(const EndpointModel& model, const Windows& windows,
                             const Tokenizer& tokenizer, LossMeter& loss) {
  for (size_t i = 0; i < windows.size(); ++i) {
    RETURN_IF_ERROR(
        AddContext(MeasureWindow(model, windows[i], tokenizer, loss),
                   fmt::format("window {}", i)));
  }
  return absl::OkStatus();
}

}  // namespace deltafin
