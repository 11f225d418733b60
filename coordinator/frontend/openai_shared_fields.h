// coordinator/frontend/openai_shared_fields.h
//
// What the generating endpoints' requests have in common. Thread-safe.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/frontend/openai_fields.h"
#include "coordinator/frontend/openai_request.h"

namespace deltafin {

// Sampling, stopping, streaming, and fields that only name the caller.
OpenAiFields SharedFields();

// Of one endpoint alone.
OpenAiFields ChatFields();
OpenAiFields CompletionFields();
OpenAiFields ResponseFields();

// A `read` for fields that need none: they say what is so anyway, or name the
// caller, which changes nothing.
absl::Status AcceptField(const JsonValue& value, OpenAiRequest& request);

// The body's object. Errors: INVALID_ARGUMENT by FieldError.
absl::StatusOr<JsonValue> ParseBody(std::string_view body);

// After all fields: whether they go together, and with this model. Errors:
// INVALID_ARGUMENT by FieldError; NOT_FOUND for another model.
absl::Status CheckShared(const OpenAiRequest& request, int vocab_size,
                         const OpenAiModel& model);
absl::Status CheckModel(const std::string& wanted, const OpenAiModel& model);
// Each prompt within the context, and not more answers than kMaxChoices.
// `field` is what a prompt came from.
absl::Status CheckPrompts(const OpenAiRequest& request,
                          const OpenAiModel& model, std::string_view field);

}  // namespace deltafin
