// coordinator/frontend/generate_request.h
//
// Reads a GenerateRequest from the wire: every field is checked and turned into
// what the engine and the text sink take. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/engine/request.h"
#include "coordinator/frontend/chat_request.h"
#include "coordinator/frontend/text_sink.h"
#include "coordinator/frontend/tokenizer.h"
#include "proto/inference.pb.h"

namespace deltafin {

struct GenerateDefaults {
  int32_t bos_token_id = 0;
  // Tokens to generate when the request does not say.
  int max_new_tokens = 1024;
};

struct ParsedGenerateRequest {
  GenerationRequest generation;
  TextSinkOptions text;
};

// Errors: INVALID_ARGUMENT naming the field, its value and what is accepted;
// FAILED_PRECONDITION: a chat for a model without chat format. Ranges of
// sampling options and prompt ids are the scheduler's to check.
absl::StatusOr<ParsedGenerateRequest> ParseGenerateRequest(
    const v1::GenerateRequest& request, const Tokenizer& tokenizer,
    const GenerateDefaults& defaults);

absl::StatusOr<ChatRequest> ParseChat(const v1::Chat& chat);

// Errors: INVALID_ARGUMENT naming field[index] for an id that is no int32.
absl::StatusOr<std::vector<int32_t>> ParseIds(
    const google::protobuf::RepeatedField<uint32_t>& ids,
    std::string_view field);

}  // namespace deltafin
