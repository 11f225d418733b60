// ParseCompletion: the fields of /v1/completions.

#include <limits>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/engine/logprobs.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_request.h"
#include "coordinator/frontend/openai_shared_fields.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr double kMaxInt = std::numeric_limits<int>::max();
constexpr int kDefaultMaxTokens = 16;  // OpenAI's

using Kind = JsonValue::Kind;

absl::StatusOr<std::vector<int32_t>> ReadIds(const JsonValue& array,
                                             std::string_view path) {
  std::vector<int32_t> ids;
  for (const JsonValue& item : array.items) {
    RETURN_IF_ERROR(RequireType(item, FieldType::kInteger,
                                fmt::format("{}[{}]", path, ids.size())));
    const int64_t id = IntegerOf(item);
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return FieldError(path, fmt::format("{} is no token id", id));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// One of several prompts, or all of them if that is the whole field.
absl::Status ReadOnePrompt(const JsonValue& value, std::string_view path,
                           OpenAiRequest& request) {
  CompletionPrompt prompt;
  if (value.kind == Kind::kString) {
    prompt.text = value.text;
  } else if (value.kind == Kind::kArray) {
    ASSIGN_OR_RETURN(prompt.ids, ReadIds(value, path));
  } else {
    return FieldError(path, "expected text or an array of token ids",
                      "invalid_type");
  }
  request.completion_prompts.push_back(std::move(prompt));
  return absl::OkStatus();
}

absl::Status ReadPrompt(const JsonValue& value, OpenAiRequest& request) {
  const bool is_list = value.kind == Kind::kArray && !value.items.empty() &&
                       value.items[0].kind != Kind::kNumber;
  if (!is_list) return ReadOnePrompt(value, "prompt", request);
  if (value.items.size() > kMaxChoices) {
    return FieldError("prompt", fmt::format("at most {}", kMaxChoices));
  }
  for (size_t i = 0; i < value.items.size(); ++i) {
    RETURN_IF_ERROR(
        ReadOnePrompt(value.items[i], fmt::format("prompt[{}]", i), request));
  }
  return absl::OkStatus();
}

constexpr auto kNull = NullMeans::kAbsent;
constexpr auto kNoNull = NullMeans::kError;

constexpr OpenAiField kFields[] = {
    {"prompt", FieldType::kAny, kNoNull, ReadPrompt},
    {"add_special_tokens", FieldType::kBoolean, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.add_special_tokens = BooleanOf(value);
       return absl::OkStatus();
     }},
    {"max_tokens", FieldType::kInteger, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.max_tokens = static_cast<int>(IntegerOf(value));
       return absl::OkStatus();
     },
     0, kMaxInt},
    {"echo", FieldType::kBoolean, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.echo = BooleanOf(value);
       return absl::OkStatus();
     }},
    {"logprobs", FieldType::kInteger, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.want_logprobs = true;
       request.generation.top_logprobs = static_cast<int>(IntegerOf(value));
       return absl::OkStatus();
     },
     0, kMaxTopLogprobs},
    {"best_of", FieldType::kInteger, kNull,
     [](const JsonValue& value, OpenAiRequest& /*request*/) -> absl::Status {
       if (IntegerOf(value) == 1) return absl::OkStatus();
       return NotSupported("best_of", "only 1 is supported");
     },
     1, kMaxChoices},
    {"suffix", FieldType::kAny, kNull},
};

absl::Status EncodePrompts(const Tokenizer& tokenizer, const OpenAiModel& model,
                           OpenAiRequest& request) {
  for (CompletionPrompt& prompt : request.completion_prompts) {
    std::vector<int32_t> ids;
    if (prompt.ids) {
      ids = *std::move(prompt.ids);
    } else {
      ASSIGN_OR_RETURN(ids, tokenizer.Encode(prompt.text));
      if (request.add_special_tokens) {
        ids.insert(ids.begin(), model.bos_token_id);
      }
    }
    for (const int32_t id : ids) {
      if (id >= tokenizer.vocabulary().size()) {
        return FieldError("prompt", fmt::format("{} is no token id", id));
      }
    }
    request.prompts.push_back(std::move(ids));
  }
  return absl::OkStatus();
}

}  // namespace

OpenAiFields CompletionFields() { return kFields; }

absl::StatusOr<OpenAiRequest> ParseCompletion(std::string_view body,
                                              const Tokenizer& tokenizer,
                                              const OpenAiModel& model) {
  OpenAiRequest request;
  ASSIGN_OR_RETURN(const JsonValue object, ParseBody(body));
  RETURN_IF_ERROR(ReadFields({kFields, SharedFields()}, object, request));
  if (request.completion_prompts.empty()) {
    return FieldError("prompt", "missing", "missing_required_parameter");
  }
  RETURN_IF_ERROR(CheckShared(request, tokenizer.vocabulary().size(), model));
  RETURN_IF_ERROR(EncodePrompts(tokenizer, model, request));
  RETURN_IF_ERROR(CheckPrompts(request, model, "prompt"));
  GenerationRequest& generation = request.generation;
  generation.max_new_tokens = request.max_tokens.value_or(kDefaultMaxTokens);
  generation.want_all_logits = request.echo && generation.want_logprobs;
  return request;
}

}  // namespace deltafin
