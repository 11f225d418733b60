#include "coordinator/frontend/openai_answer.h"

#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/utf8.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

bool ChoiceText::empty() const {
  return content.empty() && reasoning.empty() && calls.empty() &&
         tokens.empty();
}

void ChoiceText::Append(const ChoiceText& piece) {
  content += piece.content;
  reasoning += piece.reasoning;
  for (const ToolCallDelta& call : piece.calls) {
    if (call.begins) {
      calls.push_back(call);
    } else {
      calls.back().arguments += call.arguments;
    }
  }
  tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
}

std::string UsageJson(const AnswerUsage& usage) {
  return JsonObject()
      .Integer("prompt_tokens", usage.prompt_tokens)
      .Integer("completion_tokens", usage.completion_tokens)
      .Integer("total_tokens", usage.prompt_tokens + usage.completion_tokens)
      .Json("prompt_tokens_details",
            JsonObject()
                .Integer("cached_tokens", usage.cached_tokens)
                .Integer("audio_tokens", 0)
                .text())
      .Json("completion_tokens_details",
            JsonObject()
                .Integer("reasoning_tokens", usage.reasoning_tokens)
                .Integer("audio_tokens", 0)
                .Integer("accepted_prediction_tokens", 0)
                .Integer("rejected_prediction_tokens", 0)
                .text())
      .text();
}

std::string TokenText(const Vocabulary& vocabulary, int32_t id) {
  const std::string_view bytes = vocabulary.Bytes(id);
  if (!FirstInvalidUtf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char byte : bytes) {
    text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

std::vector<ServerEvent> ErrorEvent(const absl::Status& status) {
  return {{"", OpenAiErrorJson(status)}};
}

}  // namespace deltafin
