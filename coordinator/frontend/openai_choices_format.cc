#include "coordinator/frontend/openai_choices_format.h"

#include <utility>

#include "spdlog/fmt/fmt.h"

namespace deltafin {

ChoicesFormat::ChoicesFormat(AnswerIdentity identity,
                             ChoicesFormatOptions options,
                             const Vocabulary& vocabulary)
    : identity_(std::move(identity)),
      options_(options),
      vocabulary_(vocabulary) {}

JsonObject ChoicesFormat::Begun(std::string_view object) const {
  JsonObject begun;
  begun.Text("id", identity_.id)
      .Text("object", object)
      .Integer("created", absl::ToUnixSeconds(identity_.created))
      .Text("model", identity_.model);
  return begun;
}

ServerEvent ChoicesFormat::Event(std::string_view choice) const {
  return {"", Chunk(fmt::format("[{}]", choice),
                    options_.include_usage ? "null" : "")};
}

std::vector<ServerEvent> ChoicesFormat::End(const AnswerUsage& usage) {
  std::vector<ServerEvent> events;
  if (options_.include_usage) {
    events.push_back({"", Chunk("[]", UsageJson(usage))});
  }
  events.push_back({"", "[DONE]"});
  return events;
}

std::vector<ServerEvent> ChoicesFormat::Error(const absl::Status& status) {
  return ErrorEvent(status);
}

void AddFinishReason(std::string_view name, JsonObject& choice) {
  if (name.empty()) {
    choice.Null("finish_reason");
  } else {
    choice.Text("finish_reason", name);
  }
}

}  // namespace deltafin
