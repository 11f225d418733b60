// coordinator/frontend/message_grammar.h
//
// What an assistant may write when a chat asks for JSON or for tool calls: the
// grammar of its whole message (docs/model.md section 9), from where the
// rendered prompt ends. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/frontend/byte_grammar.h"
#include "coordinator/frontend/chat_request.h"

namespace deltafin {

// Calls in one message whose tools are held to their parameters.
inline constexpr int kMaxHeldCalls = 16;

// How the request's members are called where it came from, for errors.
struct MessageFields {
  std::string_view schema;      // response_schema_json
  std::string_view tools;       // tools_json
  std::string_view parameters;  // of a tool, below it
  std::string_view tool_choice;
};

// Null when the chat asks for neither. Reasoning is free. A response that must
// be JSON is one such text, or empty where the model calls tools instead.
// Where tools must be called the response is empty. Calls follow the tools'
// parameters where they must be made, and otherwise those of strict tools.
// Errors: INVALID_ARGUMENT; `where` is then the path of the member in error.
absl::StatusOr<std::shared_ptr<const ByteGrammar>> MakeMessageGrammar(
    const ChatRequest& chat, const MessageFields& fields, std::string& where);

}  // namespace deltafin
