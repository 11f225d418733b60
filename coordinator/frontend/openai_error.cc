#include "coordinator/frontend/openai_error.h"

#include "absl/strings/cord.h"
#include "coordinator/frontend/json_text.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr char kFieldPayload[] = "deltafin/field";
constexpr char kCodePayload[] = "deltafin/code";
// Of a field or a message: clients choose the keys that are repeated here.
constexpr size_t kMaxShown = 1000;

struct ErrorClass {
  absl::StatusCode status;
  int http_status;
  const char* type;
  const char* code;
};

constexpr ErrorClass kClasses[] = {
    {absl::StatusCode::kInvalidArgument, 400, "invalid_request_error",
     "invalid_value"},
    {absl::StatusCode::kFailedPrecondition, 400, "invalid_request_error",
     "unsupported"},
    {absl::StatusCode::kUnauthenticated, 401, "invalid_request_error",
     "invalid_api_key"},
    {absl::StatusCode::kPermissionDenied, 403, "invalid_request_error",
     "forbidden"},
    {absl::StatusCode::kNotFound, 404, "invalid_request_error", "not_found"},
    {absl::StatusCode::kResourceExhausted, 429, "rate_limit_error",
     "server_busy"},
    {absl::StatusCode::kCancelled, 503, "server_error", "cancelled"},
    {absl::StatusCode::kUnavailable, 503, "server_error", "unavailable"},
    {absl::StatusCode::kDeadlineExceeded, 504, "server_error", "timeout"},
};
constexpr ErrorClass kInternal = {absl::StatusCode::kInternal, 500,
                                  "server_error", "internal_error"};

ErrorClass ClassOf(const absl::Status& status) {
  for (const ErrorClass& known : kClasses) {
    if (known.status == status.code()) return known;
  }
  return kInternal;
}

std::string PayloadOf(const absl::Status& status, const char* name) {
  const auto payload = status.GetPayload(name);
  return payload ? std::string(*payload) : "";
}

std::string Shown(std::string_view text) {
  if (text.size() <= kMaxShown) return ReplaceInvalidUtf8(text);
  return ReplaceInvalidUtf8(text.substr(0, kMaxShown)) + "...";
}

}  // namespace

absl::Status WithField(absl::Status status, std::string_view field) {
  status.SetPayload(kFieldPayload,
                    absl::Cord(absl::string_view(field.data(), field.size())));
  return status;
}

absl::Status WithCode(absl::Status status, std::string_view code) {
  status.SetPayload(kCodePayload,
                    absl::Cord(absl::string_view(code.data(), code.size())));
  return status;
}

absl::Status FieldError(std::string_view field, std::string_view message,
                        std::string_view code) {
  return WithCode(WithField(absl::InvalidArgumentError(
                                fmt::format("{}: {}", field, message)),
                            field),
                  code);
}

absl::Status NotSupported(std::string_view field, std::string_view message) {
  return FieldError(field, message, "unsupported_parameter");
}

OpenAiError ToOpenAiError(const absl::Status& status) {
  const ErrorClass error_class = ClassOf(status);
  OpenAiError error;
  error.http_status = error_class.http_status;
  error.type = error_class.type;
  error.code = PayloadOf(status, kCodePayload);
  if (error.code.empty()) error.code = error_class.code;
  error.param = Shown(PayloadOf(status, kFieldPayload));
  error.message = Shown(std::string(status.message()));
  return error;
}

std::string OpenAiErrorJson(const absl::Status& status) {
  const OpenAiError error = ToOpenAiError(status);
  JsonObject fields;
  fields.Text("message", error.message).Text("type", error.type);
  if (error.param.empty()) {
    fields.Null("param");
  } else {
    fields.Text("param", error.param);
  }
  fields.Text("code", error.code);
  return JsonObject().Json("error", fields.text()).text();
}

}  // namespace deltafin
