#include "coordinator/frontend/output_parser.h"

#include <utility>

#include "absl/strings/str_replace.h"
#include "coordinator/frontend/python_json.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// The word that a tag begins with.
std::string_view TagName(std::string_view tag) {
  return tag.substr(0, tag.find(' '));
}

// The value of ` key="value"` in a tag, or nothing. Values hold no quotation
// marks: they are written as &quot;.
std::string TagAttribute(std::string_view tag, std::string_view key) {
  const std::string opening = fmt::format(" {}=\"", key);
  const size_t at = tag.find(opening);
  if (at == std::string_view::npos) return "";
  tag.remove_prefix(at + opening.size());
  tag = tag.substr(0, tag.find('"'));
  return absl::StrReplaceAll(absl::string_view(tag.data(), tag.size()),
                             {{"&quot;", "\""}, {"&amp;", "&"}});
}

}  // namespace

OutputParser::OutputParser(const Vocabulary& vocabulary,
                           const ChatTokens& tokens, OutputChannel initial)
    : tokens_(tokens), detokenizer_(vocabulary), channel_(initial) {}

ParsedText OutputParser::Add(int32_t id) {
  ParsedText out;
  if (ended_) return out;
  const bool is_structure = id == tokens_.open || id == tokens_.close ||
                            id == tokens_.sep || id == tokens_.end_of_message;
  if (!is_structure) {
    AddText(detokenizer_.Add(id), out);
    return out;
  }
  FlushText(out);
  if (id == tokens_.end_of_message) {
    EndMessage();
  } else if (id == tokens_.sep) {
    EndTag();
  } else {
    place_ = id == tokens_.open ? Place::kOpenTag : Place::kCloseTag;
    tag_.clear();
  }
  return out;
}

ParsedText OutputParser::Finish(OutputEnd end) {
  ParsedText out;
  if (ended_) return out;
  FlushText(out);
  if (end == OutputEnd::kCut) call_.reset();
  EndMessage();
  return out;
}

void OutputParser::AddText(std::string_view text, ParsedText& out) {
  if (place_ != Place::kText) {
    tag_ += text;
  } else if (channel_ == OutputChannel::kThink) {
    out.reasoning += text;
  } else if (channel_ == OutputChannel::kResponse) {
    out.content += text;
  } else if (channel_ == OutputChannel::kTools && in_argument_) {
    call_->arguments.back().value += text;
  }
}

void OutputParser::FlushText(ParsedText& out) {
  AddText(detokenizer_.Flush(), out);
}

void OutputParser::EndTag() {
  const Place place = std::exchange(place_, Place::kText);
  const std::string tag = std::exchange(tag_, "");
  if (place == Place::kOpenTag) Open(tag);
  if (place == Place::kCloseTag) Close(tag);
}

void OutputParser::Open(std::string_view tag) {
  const std::string_view name = TagName(tag);
  if (name == "think" || name == "response" || name == "tools") {
    EndCall();
    channel_ = name == "think"      ? OutputChannel::kThink
               : name == "response" ? OutputChannel::kResponse
                                    : OutputChannel::kTools;
  } else if (channel_ == OutputChannel::kTools) {
    OpenInTools(tag);
  }
}

void OutputParser::OpenInTools(std::string_view tag) {
  const std::string_view name = TagName(tag);
  in_argument_ = false;
  if (name == "call") {
    EndCall();
    call_ = Call{TagAttribute(tag, "tool"), {}};
  } else if (call_ && (name == "argument" || name == "json")) {
    call_->arguments.push_back({TagAttribute(tag, "key"),
                                TagAttribute(tag, "type"), "", name == "json"});
    in_argument_ = true;
  }
}

void OutputParser::Close(std::string_view tag) {
  const std::string_view name = TagName(tag);
  const bool in_tools = channel_ == OutputChannel::kTools;
  if (name == "message") {
    EndCall();
    channel_ = OutputChannel::kNone;
  } else if (in_tools && (name == "argument" || name == "json")) {
    in_argument_ = false;
  } else if (in_tools && name == "call") {
    EndCall();
  } else if (in_tools && name == "tools") {
    EndCall();
    channel_ = OutputChannel::kNone;
  } else if ((name == "think" && channel_ == OutputChannel::kThink) ||
             (name == "response" && channel_ == OutputChannel::kResponse)) {
    channel_ = OutputChannel::kNone;
  }
}

void OutputParser::EndCall() {
  in_argument_ = false;
  if (!call_) return;
  const Call call = *std::exchange(call_, std::nullopt);
  tool_calls_.push_back({fmt::format("call_{}", tool_calls_.size() + 1),
                         call.name, ArgumentsJson(call.arguments)});
}

// One JSON object of the arguments, in order. Strings are quoted, values of
// other types stand as the model wrote them if they are JSON and are quoted if
// not; a `json` element is the object itself, whatever it holds.
std::string OutputParser::ArgumentsJson(
    const std::vector<Argument>& arguments) {
  std::string json;
  std::string_view separator = "";
  for (const Argument& argument : arguments) {
    if (argument.is_whole_object) return argument.value;
    const bool verbatim =
        argument.type != "string" && ParseJson(argument.value).ok();
    json += fmt::format("{}{}: {}", separator, QuoteJson(argument.key),
                        verbatim ? argument.value : QuoteJson(argument.value));
    separator = ", ";
  }
  return "{" + json + "}";
}

void OutputParser::EndMessage() {
  EndCall();
  channel_ = OutputChannel::kNone;
  ended_ = true;
}

}  // namespace deltafin
