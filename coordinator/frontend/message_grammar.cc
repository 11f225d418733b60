#include "coordinator/frontend/message_grammar.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "coordinator/frontend/chat_segments.h"
#include "coordinator/frontend/json_grammar.h"
#include "coordinator/frontend/json_schema_grammar.h"
#include "coordinator/frontend/python_json.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

bool IsStrict(const JsonValue* function) {
  const JsonValue* strict =
      function == nullptr ? nullptr : function->Find("strict");
  return strict != nullptr && strict->text == "true";
}

bool MayCall(const ChatRequest& chat) {
  return !chat.tools_json.empty() && chat.tool_choice == ToolChoice::kAuto;
}

// Whether calls that need not be made are held to something: to parameters, or
// to their number. What is no JSON is no matter of this.
bool HoldsCalls(const ChatRequest& chat) {
  if (!chat.parallel_tool_calls) return true;
  if (chat.tools_json.find("\"strict\"") == std::string::npos) return false;
  const absl::StatusOr<JsonValue> tools = ParseJson(chat.tools_json);
  if (!tools.ok()) return false;
  return std::any_of(
      tools->items.begin(), tools->items.end(),
      [](const JsonValue& tool) { return IsStrict(tool.Find("function")); });
}

class MessageBuilder {
 public:
  MessageBuilder(const ChatRequest& chat, const MessageFields& fields,
                 std::string& where)
      : chat_(chat), fields_(fields), where_(where) {}

  absl::Status Build() {
    const GrammarNode start = grammar_->AddNode();
    const GrammarNode response = grammar_->AddNode();
    const GrammarNode after_response = grammar_->AddNode();
    const GrammarNode tools = grammar_->AddNode();
    const GrammarNode end_of_message = grammar_->AddNode();
    const GrammarNode end = grammar_->AddNode();
    Think(start, response);
    Close("message", after_response, end_of_message);
    grammar_->Symbol(end_of_message, kEndOfMessageSymbol, end);
    grammar_->SetFinal(end);
    if (chat_.tool_choice == ToolChoice::kRequired) {
      Close("response", response, tools);
      RETURN_IF_ERROR(HeldCalls(tools, after_response));
      return Finish(start, fields_.tools);
    }
    RETURN_IF_ERROR(Response(response, after_response));
    if (MayCall(chat_)) {
      Close("response", response, tools);
      if (HoldsCalls(chat_)) {
        RETURN_IF_ERROR(HeldCalls(tools, after_response));
      } else {
        FreeCalls(tools, end_of_message);
      }
    }
    return Finish(start, fields_.schema);
  }

  std::shared_ptr<const ByteGrammar> Take() { return grammar_; }

 private:
  absl::Status Fail(std::string where, absl::Status status) {
    where_ = std::move(where);
    return status;
  }

  absl::Status Finish(GrammarNode start, std::string_view field) {
    if (grammar_->is_too_large()) {
      return Fail(std::string(field),
                  absl::InvalidArgumentError("there is too much of it"));
    }
    const absl::Status status = grammar_->Finish(start);
    if (status.ok()) return status;
    return Fail(std::string(field),
                absl::InvalidArgumentError("nothing satisfies it"));
  }

  void Tag(GrammarSymbol control, std::string_view text, GrammarNode from,
           GrammarNode to) {
    const GrammarNode begin = grammar_->AddNode();
    const GrammarNode end = grammar_->AddNode();
    grammar_->Symbol(from, control, begin);
    grammar_->Text(begin, text, end);
    grammar_->Symbol(end, kSepSymbol, to);
  }
  void Open(std::string_view tag, GrammarNode from, GrammarNode to) {
    Tag(kOpenSymbol, tag, from, to);
  }
  void Close(std::string_view tag, GrammarNode from, GrammarNode to) {
    Tag(kCloseSymbol, tag, from, to);
  }

  void Think(GrammarNode from, GrammarNode response) {
    if (chat_.thinking == Thinking::kOff) {
      return grammar_->Empty(from, response);
    }
    const GrammarNode after = grammar_->AddNode();
    grammar_->Symbols(from, 0, 255, from);
    Close("think", from, after);
    Open("response", after, response);
  }

  absl::Status Response(GrammarNode from, GrammarNode to) {
    if (chat_.response_format == ResponseFormat::kText) {
      grammar_->Symbols(from, 0, 255, from);
      Close("response", from, to);
      return absl::OkStatus();
    }
    const GrammarNode end = grammar_->AddNode();
    Close("response", end, to);
    if (chat_.response_format == ResponseFormat::kJsonObject) {
      grammar_->Call(from, json_.any_object(), end);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const JsonValue* schema,
                     Parse(chat_.response_schema_json, fields_.schema));
    JsonSchemaGrammar rules(*schema, json_);
    const absl::StatusOr<GrammarNode> rule = rules.Value();
    if (!rule.ok()) {
      return Fail(Join(fields_.schema, rules.where()), rule.status());
    }
    grammar_->Call(from, *rule, end);
    return absl::OkStatus();
  }

  // The tools element as the model likes.
  void FreeCalls(GrammarNode from, GrammarNode end_of_message) {
    const GrammarNode inside = grammar_->AddNode();
    Open("tools", from, inside);
    grammar_->Symbols(inside, 0, kSepSymbol, inside);
    Close("message", inside, end_of_message);
  }

  // The tools element with calls that follow the parameters: of those tools
  // that may be called, and are held to them.
  absl::Status HeldCalls(GrammarNode from, GrammarNode to) {
    const GrammarNode first = grammar_->AddNode();
    const GrammarNode more = grammar_->AddNode();
    if (chat_.tools_json.empty()) {
      return Fail(std::string(fields_.tools),
                  absl::InvalidArgumentError("a forced call needs tools"));
    }
    ASSIGN_OR_RETURN(const JsonValue* tools,
                     Parse(chat_.tools_json, fields_.tools));
    bool has_any = false;
    for (size_t i = 0; i < tools->items.size(); ++i) {
      const JsonValue* function = tools->items[i].Find("function");
      const JsonValue* name =
          function == nullptr ? nullptr : function->Find("name");
      const std::string path = fmt::format("{}[{}]", fields_.tools, i);
      if (name == nullptr || name->kind != JsonValue::Kind::kString) {
        return Fail(path, absl::InvalidArgumentError(
                              "expected the declaration of a function"));
      }
      if (!chat_.tool_name.empty() && name->text != chat_.tool_name) continue;
      has_any = true;
      RETURN_IF_ERROR(CallOf(*function, path, first, more));
    }
    if (!has_any) {
      return Fail(std::string(fields_.tool_choice),
                  absl::InvalidArgumentError("there is no such tool to call"));
    }
    GrammarNode at = grammar_->AddNode();
    Open("tools", from, at);
    const bool is_one = !chat_.tool_name.empty() || !chat_.parallel_tool_calls;
    for (int i = 0; i < (is_one ? 1 : kMaxHeldCalls); ++i) {
      const GrammarNode next = grammar_->AddNode();
      grammar_->Call(at, i == 0 ? first : more, next);
      Close("tools", next, to);
      at = next;
    }
    return absl::OkStatus();
  }

  // Adds a function to the rules of a message's first call and of its others,
  // which differ in their number.
  absl::Status CallOf(const JsonValue& function, const std::string& path,
                      GrammarNode first, GrammarNode more) {
    const std::string tag =
        fmt::format("call tool=\"{}\" index=\"",
                    EscapeAttribute(function.Find("name")->text));
    const GrammarNode arguments = grammar_->AddNode();
    const GrammarNode close = grammar_->AddNode();
    const GrammarNode end = grammar_->AddNode();
    grammar_->SetFinal(end);
    Open(tag + "1\"", first, arguments);
    const GrammarNode begin = grammar_->AddNode();
    const GrammarNode number = grammar_->AddNode();
    const GrammarNode number_end = grammar_->AddNode();
    const GrammarNode tag_end = grammar_->AddNode();
    grammar_->Symbol(more, kOpenSymbol, begin);
    grammar_->Text(begin, tag, number);
    json_.Integer(number, {2, kMaxHeldCalls}, number_end);
    grammar_->Symbol(number_end, '"', tag_end);
    grammar_->Symbol(tag_end, kSepSymbol, arguments);
    Close("call", close, end);
    return Arguments(function, path, arguments, close);
  }

  // Elements with any text.
  void FreeArguments(GrammarNode from, GrammarNode to) {
    const GrammarNode tag = grammar_->AddNode();
    const GrammarNode value = grammar_->AddNode();
    grammar_->Empty(from, to);
    grammar_->Symbol(from, kOpenSymbol, tag);
    grammar_->Symbols(tag, 0, 255, tag);
    grammar_->Symbol(tag, kSepSymbol, value);
    grammar_->Symbols(value, 0, 255, value);
    for (const char* element : {"argument", "json"}) {
      Close(element, value, from);
    }
  }

  absl::Status Arguments(const JsonValue& function, const std::string& path,
                         GrammarNode from, GrammarNode to) {
    const JsonValue* parameters = function.Find("parameters");
    if (parameters == nullptr) {
      grammar_->Empty(from, to);
      return absl::OkStatus();
    }
    const bool is_held =
        chat_.tool_choice == ToolChoice::kRequired || IsStrict(&function);
    if (!is_held) {
      FreeArguments(from, to);
      return absl::OkStatus();
    }
    JsonSchemaGrammar rules(*parameters, json_);
    const auto arguments = rules.Arguments();
    if (!arguments.ok()) {
      return Fail(
          Join(fmt::format("{}.{}", path, fields_.parameters), rules.where()),
          arguments.status());
    }
    for (const ArgumentRules& argument : *arguments) {
      const GrammarNode next = grammar_->AddNode();
      const std::string tag = fmt::format("argument key=\"{}\" type=\"",
                                          EscapeAttribute(argument.key));
      for (const auto& [type, rule] : argument.types) {
        const GrammarNode value = grammar_->AddNode();
        const GrammarNode end = grammar_->AddNode();
        Open(fmt::format("{}{}\"", tag, type), from, value);
        grammar_->Call(value, rule, end);
        Close("argument", end, next);
      }
      if (!argument.is_required) grammar_->Empty(from, next);
      from = next;
    }
    grammar_->Empty(from, to);
    return absl::OkStatus();
  }

  absl::StatusOr<const JsonValue*> Parse(const std::string& json,
                                         std::string_view field) {
    if (json.size() > kMaxSchemaBytes) {
      return Fail(std::string(field),
                  absl::InvalidArgumentError(fmt::format(
                      "{} bytes, {} at most", json.size(), kMaxSchemaBytes)));
    }
    std::string where;
    absl::StatusOr<JsonValue> value = ParseStrictJson(json, where);
    if (!value.ok()) return Fail(Join(field, where), value.status());
    parsed_ = *std::move(value);
    return &parsed_;
  }

  static std::string Join(std::string_view field, std::string_view below) {
    const bool needs_point = !below.empty() && below[0] != '[';
    return fmt::format("{}{}{}", field, needs_point ? "." : "", below);
  }

  const ChatRequest& chat_;
  const MessageFields& fields_;
  std::string& where_;
  const std::shared_ptr<ByteGrammar> grammar_ = std::make_shared<ByteGrammar>();
  JsonGrammar json_{*grammar_};
  JsonValue parsed_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ByteGrammar>> MakeMessageGrammar(
    const ChatRequest& chat, const MessageFields& fields, std::string& where) {
  const bool is_free = chat.response_format == ResponseFormat::kText &&
                       chat.tool_choice != ToolChoice::kRequired &&
                       !(MayCall(chat) && HoldsCalls(chat));
  if (is_free) return nullptr;
  MessageBuilder builder(chat, fields, where);
  RETURN_IF_ERROR(builder.Build());
  return builder.Take();
}

}  // namespace deltafin
