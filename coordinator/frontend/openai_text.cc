#include "coordinator/frontend/openai_text.h"

#include <limits>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "coordinator/frontend/chat_template.h"
#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_messages.h"
#include "coordinator/frontend/openai_object.h"
#include "coordinator/frontend/openai_shared_fields.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// Whoever names a model means that one.
absl::Status ReadModel(ObjectReader& object, const OpenAiModel& model) {
  std::string name = model.name;
  RETURN_IF_ERROR(object.ReadString("model", name));
  return CheckModel(name, model);
}

absl::StatusOr<std::vector<int32_t>> EncodeMessages(
    ObjectReader& object, const JsonValue& messages,
    const Tokenizer& tokenizer) {
  ChatRequest chat;
  RETURN_IF_ERROR(RequireType(messages, FieldType::kArray, "messages"));
  ASSIGN_OR_RETURN(chat.messages, ReadMessages(messages, "messages"));
  if (const JsonValue* tools = object.Find("tools"); tools != nullptr) {
    RETURN_IF_ERROR(RequireType(*tools, FieldType::kArray, "tools"));
    ASSIGN_OR_RETURN(chat.tools_json, ReadTools(*tools, "tools"));
  }
  RETURN_IF_ERROR(
      object.ReadBoolean("add_generation_prompt", chat.generation_prompt));
  RETURN_IF_ERROR(object.RefuseOthers());
  auto ids = EncodeChat(tokenizer, chat);
  if (!ids.ok()) return WithField(ids.status(), "messages");
  return ids;
}

absl::StatusOr<std::vector<int32_t>> EncodeText(ObjectReader& object,
                                                const Tokenizer& tokenizer,
                                                const OpenAiModel& model) {
  std::string text;
  bool add_special_tokens = false;
  RETURN_IF_ERROR(object.RequireString("prompt", text));
  RETURN_IF_ERROR(object.ReadBoolean("add_special_tokens", add_special_tokens));
  RETURN_IF_ERROR(object.RefuseOthers());
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode(text));
  if (add_special_tokens) ids.insert(ids.begin(), model.bos_token_id);
  return ids;
}

absl::StatusOr<std::vector<int32_t>> ReadTokens(const JsonValue& array,
                                                const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const JsonValue& item : array.items) {
    const std::string path = fmt::format("tokens[{}]", ids.size());
    RETURN_IF_ERROR(RequireType(item, FieldType::kInteger, path));
    const int64_t id = IntegerOf(item);
    if (id < 0 || id >= tokenizer.vocabulary().size()) {
      return FieldError(path, fmt::format("{} is no token id", id));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace

absl::StatusOr<std::string> TokenizeJson(std::string_view body,
                                         const Tokenizer& tokenizer,
                                         const OpenAiModel& model) {
  ASSIGN_OR_RETURN(const JsonValue value, ParseBody(body));
  ASSIGN_OR_RETURN(ObjectReader object, ObjectReader::Open(value, ""));
  RETURN_IF_ERROR(ReadModel(object, model));
  const JsonValue* messages = object.Find("messages");
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                   messages != nullptr
                       ? EncodeMessages(object, *messages, tokenizer)
                       : EncodeText(object, tokenizer, model));
  return JsonObject()
      .Integer("count", std::ssize(ids))
      .Integer("max_model_len", model.context_tokens)
      .Json("tokens", fmt::format("[{}]", fmt::join(ids, ",")))
      .text();
}

absl::StatusOr<std::string> DetokenizeJson(std::string_view body,
                                           const Tokenizer& tokenizer,
                                           const OpenAiModel& model) {
  ASSIGN_OR_RETURN(const JsonValue value, ParseBody(body));
  ASSIGN_OR_RETURN(ObjectReader object, ObjectReader::Open(value, ""));
  RETURN_IF_ERROR(ReadModel(object, model));
  ASSIGN_OR_RETURN(const JsonValue* tokens,
                   object.Require("tokens", FieldType::kArray));
  RETURN_IF_ERROR(object.RefuseOthers());
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                   ReadTokens(*tokens, tokenizer));
  ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(ids));
  return JsonObject().Text("prompt", text).text();
}

}  // namespace deltafin
