// Input: a JSON schema. What is accepted must have a text, and what is read by
// it must be JSON; what is refused must name a reason.

#include <memory>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "coordinator/frontend/grammar_states.h"
#include "coordinator/frontend/message_grammar.h"
#include "coordinator/frontend/python_json.h"

using deltafin::GrammarStates;

namespace {

// The state after the byte that leads on and comes first in `wanted`, or is any
// other.
GrammarStates::State Step(GrammarStates& states, GrammarStates::State state,
                          std::string_view wanted, std::string& text) {
  for (int i = 0; i < static_cast<int>(wanted.size()) + 256; ++i) {
    const int beyond = i - static_cast<int>(wanted.size());
    const uint8_t byte = beyond < 0 ? wanted[i] : static_cast<uint8_t>(beyond);
    const auto next = states.Next(state, byte);
    if (next == GrammarStates::kDead) continue;
    text += static_cast<char>(byte);
    return next;
  }
  return GrammarStates::kDead;
}

// The message's text, by the way to its end that some bytes tell.
std::string Draw(const std::shared_ptr<const deltafin::ByteGrammar>& grammar,
                 std::string_view bytes) {
  constexpr size_t kMaxBytes = 3000;
  GrammarStates states(grammar);
  auto state = states.start();
  std::string text;
  while (states.Next(state, deltafin::kCloseSymbol) == GrammarStates::kDead) {
    const std::string_view wanted = text.size() < bytes.size() / 2
                                        ? bytes.substr(text.size(), 3)
                                        : "\"}]0.nt:,";
    state = Step(states, state, wanted, text);
    CHECK(state != GrammarStates::kDead, "every text can be ended");
    if (text.size() > kMaxBytes || states.work() > 5'000'000) return "null";
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  deltafin::ChatRequest chat;
  chat.thinking = deltafin::Thinking::kOff;
  chat.response_format = deltafin::ResponseFormat::kJsonSchema;
  chat.response_schema_json.assign(reinterpret_cast<const char*>(bytes), size);
  std::string where;
  const auto grammar = deltafin::MakeMessageGrammar(
      chat, {"schema", "tools", "parameters", "choice"}, where);
  if (!grammar.ok()) {
    CHECK(absl::IsInvalidArgument(grammar.status()));
    CHECK(where.starts_with("schema") && !grammar.status().message().empty());
    return 0;
  }
  const std::string text = Draw(*grammar, chat.response_schema_json);
  CHECK(deltafin::ParseJson(text).ok(), "what is read is JSON");
  return 0;
}
