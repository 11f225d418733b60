// coordinator/frontend/generate_reply.h
//
// What a Generate call answers, as messages of proto/inference.proto.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/engine/logprobs.h"
#include "coordinator/engine/request.h"
#include "coordinator/frontend/chat_request.h"
#include "coordinator/frontend/text_sink.h"
#include "proto/inference.pb.h"

namespace deltafin {

// One token, or the rest of the text at the end.
v1::GenerateReply TokenReply(const TextDelta& delta);

// A token of the prompt, with what the model thought of it.
v1::GenerateReply PromptTokenReply(int32_t id, const Logprobs& scores);

// The last one. `reasoning_tokens`: how many of the completion's were such.
v1::GenerateReply LastReply(const RequestResult& result,
                            const std::vector<ToolCall>& calls,
                            int reasoning_tokens);

}  // namespace deltafin
