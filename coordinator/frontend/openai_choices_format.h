// coordinator/frontend/openai_choices_format.h
//
// What the answers of /v1/chat/completions and /v1/completions have in common:
// choices in an object, events that are such objects, and [DONE].
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/openai_answer.h"

namespace deltafin {

struct ChoicesFormatOptions {
  bool include_usage = false;  // a last event with the usage
  bool has_logprobs = false;
  int top_logprobs = 0;
};

class ChoicesFormat : public AnswerFormat {
 public:
  std::vector<ServerEvent> End(const AnswerUsage& usage) final;
  std::vector<ServerEvent> Error(const absl::Status& status) final;

 protected:
  // `vocabulary` must outlive this.
  ChoicesFormat(AnswerIdentity identity, ChoicesFormatOptions options,
                const Vocabulary& vocabulary);

  const AnswerIdentity& identity() const { return identity_; }
  const ChoicesFormatOptions& options() const { return options_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

  // An event with one choice.
  ServerEvent Event(std::string_view choice) const;
  // The members that every object begins with.
  JsonObject Begun(std::string_view object) const;
  // An event's object. `usage`: JSON, empty where the event has none.
  virtual std::string Chunk(std::string_view choices,
                            std::string_view usage) const = 0;

 private:
  const AnswerIdentity identity_;
  const ChoicesFormatOptions options_;
  const Vocabulary& vocabulary_;
};

// Adds "finish_reason"; empty: null.
void AddFinishReason(std::string_view name, JsonObject& choice);

}  // namespace deltafin
