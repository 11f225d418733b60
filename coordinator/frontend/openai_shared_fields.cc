#include "coordinator/frontend/openai_shared_fields.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "common/base/status_macros.h"
#include "coordinator/engine/sampler.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_object.h"
#include "coordinator/frontend/stop_matcher.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t kMaxStops = 4;
constexpr double kMaxInt = std::numeric_limits<int>::max();
constexpr double kInt64Least = -9223372036854775808.0;
constexpr double kInt64Most = 9223372036854775808.0;  // the type's own bound
constexpr double kMaxTimeoutSeconds = 86400;
constexpr double kMaxResumableSeconds = 600;

float FloatOf(const JsonValue& value) {
  return static_cast<float>(NumberOf(value));
}

absl::Status ReadStop(const JsonValue& value, OpenAiRequest& request) {
  std::vector<std::string>& stops = request.text.stop;
  if (value.kind == JsonValue::Kind::kString) {
    stops = {value.text};
  } else if (value.kind == JsonValue::Kind::kArray) {
    for (const JsonValue& item : value.items) {
      RETURN_IF_ERROR(RequireType(item, FieldType::kString,
                                  fmt::format("stop[{}]", stops.size())));
      stops.push_back(item.text);
    }
  } else {
    return FieldError("stop", "expected a string or an array of strings",
                      "invalid_type");
  }
  if (stops.size() > kMaxStops) {
    return FieldError("stop", fmt::format("at most {} strings", kMaxStops));
  }
  const auto matcher = StopMatcher::Create(stops);
  if (matcher.ok()) return absl::OkStatus();
  return WithField(matcher.status(), "stop");
}

absl::Status ReadLogitBias(const JsonValue& value, OpenAiRequest& request) {
  for (const JsonMember& member : value.members) {
    const std::string path = fmt::format("logit_bias.{}", member.key);
    int32_t id = 0;
    const char* const end = member.key.data() + member.key.size();
    const auto [rest, error] = std::from_chars(member.key.data(), end, id);
    const bool is_id = error == std::errc() && rest == end;
    // Spelled otherwise, one id could have two members.
    if (!is_id || fmt::to_string(id) != member.key) {
      return FieldError(path, "expected a token id as the key");
    }
    RETURN_IF_ERROR(RequireType(member.value, FieldType::kNumber, path));
    request.generation.sampling.logit_bias.emplace_back(id,
                                                        FloatOf(member.value));
  }
  return absl::OkStatus();
}

absl::Status ReadResumable(ObjectReader& object, StreamOptions& options) {
  const JsonValue* seconds = object.Find("resumable");
  if (seconds == nullptr) return absl::OkStatus();
  const std::string path = object.PathOf("resumable");
  RETURN_IF_ERROR(RequireType(*seconds, FieldType::kNumber, path));
  const double value = NumberOf(*seconds);
  if (value < 0 || value > kMaxResumableSeconds) {
    return FieldError(path, fmt::format("{} is not in [0, {}] seconds", value,
                                        kMaxResumableSeconds));
  }
  options.resumable = absl::Seconds(value);
  return absl::OkStatus();
}

absl::Status ReadStreamOptions(const JsonValue& value, OpenAiRequest& request) {
  StreamOptions options;
  bool obfuscate = false;
  ASSIGN_OR_RETURN(ObjectReader object,
                   ObjectReader::Open(value, "stream_options"));
  RETURN_IF_ERROR(object.ReadBoolean("include_usage", options.include_usage));
  RETURN_IF_ERROR(object.ReadBoolean("empty_delta", options.empty_delta));
  RETURN_IF_ERROR(object.ReadBoolean("include_obfuscation", obfuscate));
  if (obfuscate) {
    return NotSupported(object.PathOf("include_obfuscation"),
                        "only false is supported");
  }
  RETURN_IF_ERROR(ReadResumable(object, options));
  RETURN_IF_ERROR(object.RefuseOthers());
  request.stream_options = options;
  return absl::OkStatus();
}

constexpr auto kNull = NullMeans::kAbsent;
constexpr auto kNoNull = NullMeans::kError;

constexpr OpenAiField kFields[] = {
    {"model", FieldType::kString, kNoNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.model = value.text;
       return absl::OkStatus();
     }},
    {"temperature", FieldType::kNumber, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.sampling.temperature = FloatOf(value);
       return absl::OkStatus();
     },
     0, 2},
    {"top_p", FieldType::kNumber, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.sampling.top_p = FloatOf(value);
       return absl::OkStatus();
     },
     0, 1},
    {"top_k", FieldType::kInteger, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.sampling.top_k = static_cast<int>(IntegerOf(value));
       return absl::OkStatus();
     },
     0, kMaxInt},
    {"min_p", FieldType::kNumber, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.sampling.min_p = FloatOf(value);
       return absl::OkStatus();
     },
     0, 1},
    {"seed", FieldType::kInteger, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.sampling.seed =
           static_cast<uint64_t>(IntegerOf(value));
       return absl::OkStatus();
     },
     kInt64Least, kInt64Most},
    {"presence_penalty", FieldType::kNumber, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.sampling.presence_penalty = FloatOf(value);
       return absl::OkStatus();
     },
     -2, 2},
    {"frequency_penalty", FieldType::kNumber, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.sampling.frequency_penalty = FloatOf(value);
       return absl::OkStatus();
     },
     -2, 2},
    {"repetition_penalty", FieldType::kNumber, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.sampling.repetition_penalty = FloatOf(value);
       return absl::OkStatus();
     },
     0.01, 100},
    {"logit_bias", FieldType::kObject, kNull, ReadLogitBias},
    {"stop", FieldType::kAny, kNull, ReadStop},
    {"ignore_eos", FieldType::kBoolean, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.ignore_eos = BooleanOf(value);
       return absl::OkStatus();
     }},
    {"n", FieldType::kInteger, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.num_choices = static_cast<int>(IntegerOf(value));
       return absl::OkStatus();
     },
     1, kMaxChoices},
    {"timeout", FieldType::kNumber, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.timeout = absl::Seconds(NumberOf(value));
       return absl::OkStatus();
     },
     0.001, kMaxTimeoutSeconds},
    {"stream", FieldType::kBoolean, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.stream = BooleanOf(value);
       return absl::OkStatus();
     }},
    {"stream_options", FieldType::kObject, kNull, ReadStreamOptions},
    {"user", FieldType::kString, kNoNull, AcceptField},
    {"safety_identifier", FieldType::kString, kNull, AcceptField},
    {"prompt_cache_key", FieldType::kString, kNull, AcceptField},
};

// The field of the option that FindSamplingFault names.
std::string_view FieldOfOption(std::string_view option) {
  return option.starts_with("logit_bias") ? "logit_bias" : option;
}

}  // namespace

OpenAiFields SharedFields() { return kFields; }

absl::Status AcceptField(const JsonValue& /*value*/,
                         OpenAiRequest& /*request*/) {
  return absl::OkStatus();
}

absl::StatusOr<JsonValue> ParseBody(std::string_view body) {
  std::string where;
  const absl::StatusOr<JsonValue> value = ParseStrictJson(body, where);
  if (!value.ok()) {
    const absl::Status status = WithCode(value.status(), "invalid_json");
    return where.empty() ? status : WithField(status, where);
  }
  if (value->kind == JsonValue::Kind::kObject) return value;
  return WithCode(absl::InvalidArgumentError("the body is no JSON object"),
                  "invalid_json");
}

absl::Status CheckModel(const std::string& wanted, const OpenAiModel& model) {
  if (wanted.empty()) {
    return FieldError("model", "missing", "missing_required_parameter");
  }
  if (wanted == model.name) return absl::OkStatus();
  return WithCode(WithField(absl::NotFoundError(fmt::format(
                                "model: there is no '{}' here, only '{}'",
                                wanted, model.name)),
                            "model"),
                  "model_not_found");
}

absl::Status CheckShared(const OpenAiRequest& request, int vocab_size,
                         const OpenAiModel& model) {
  RETURN_IF_ERROR(CheckModel(request.model, model));
  if (request.stream_options && !request.stream) {
    return FieldError("stream_options", "needs stream: true");
  }
  const auto fault = FindSamplingFault(request.generation.sampling, vocab_size);
  if (!fault) return absl::OkStatus();
  return FieldError(FieldOfOption(fault->option),
                    fmt::format("{} must be {}", fault->value, fault->range));
}

absl::Status CheckPrompts(const OpenAiRequest& request,
                          const OpenAiModel& model, std::string_view field) {
  if (request.prompts.size() * request.num_choices > kMaxChoices) {
    return FieldError(
        "n", fmt::format("{} answers at most, n for each prompt", kMaxChoices));
  }
  for (const std::vector<int32_t>& prompt : request.prompts) {
    if (prompt.empty()) return FieldError(field, "has no token");
    if (std::ssize(prompt) > model.context_tokens) {
      return FieldError(field,
                        fmt::format("{} tokens; the context has room for {}",
                                    prompt.size(), model.context_tokens),
                        "context_length_exceeded");
    }
  }
  return absl::OkStatus();
}

}  // namespace deltafin
