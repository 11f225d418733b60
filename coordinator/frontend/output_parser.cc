#include "coordinator/frontend/output_parser.h"

#include <utility>

#include "absl/strings/str_replace.h"
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
    out.part = PartOfText();
    AddText(detokenizer_.Add(id), out);
    return out;
  }
  FlushText(out);
  if (id == tokens_.end_of_message) {
    EndMessage(out);
  } else if (id == tokens_.sep) {
    EndTag(out);
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
  EndMessage(out);
  return out;
}

OutputPart OutputParser::PartOfText() const {
  if (place_ != Place::kText) return OutputPart::kStructure;
  switch (channel_) {
    case OutputChannel::kThink:
      return OutputPart::kReasoning;
    case OutputChannel::kResponse:
      return OutputPart::kContent;
    case OutputChannel::kTools:
      return OutputPart::kToolCall;
    case OutputChannel::kNone:
      break;
  }
  return OutputPart::kStructure;
}

void OutputParser::AddText(std::string_view text, ParsedText& out) {
  if (place_ != Place::kText) {
    tag_ += text;
  } else if (channel_ == OutputChannel::kThink) {
    out.reasoning += text;
  } else if (channel_ == OutputChannel::kResponse) {
    out.content += text;
  } else if (channel_ == OutputChannel::kTools && call_) {
    AddArguments(call_->arguments.AddText(text), out);
  }
}

void OutputParser::FlushText(ParsedText& out) {
  AddText(detokenizer_.Flush(), out);
}

void OutputParser::EndTag(ParsedText& out) {
  const Place place = std::exchange(place_, Place::kText);
  const std::string tag = std::exchange(tag_, "");
  if (place == Place::kOpenTag) Open(tag, out);
  if (place == Place::kCloseTag) Close(tag, out);
}

void OutputParser::Open(std::string_view tag, ParsedText& out) {
  const std::string_view name = TagName(tag);
  if (name == "think" || name == "response" || name == "tools") {
    EndCall(out);
    channel_ = name == "think"      ? OutputChannel::kThink
               : name == "response" ? OutputChannel::kResponse
                                    : OutputChannel::kTools;
  } else if (channel_ == OutputChannel::kTools) {
    OpenInTools(tag, out);
  }
}

void OutputParser::OpenInTools(std::string_view tag, ParsedText& out) {
  const std::string_view name = TagName(tag);
  if (name == "call") {
    EndCall(out);
    BeginCall(TagAttribute(tag, "tool"), out);
  } else if (!call_) {
    return;
  } else if (name == "argument") {
    AddArguments(call_->arguments.BeginArgument(TagAttribute(tag, "key"),
                                                TagAttribute(tag, "type")),
                 out);
  } else if (name == "json") {
    AddArguments(call_->arguments.BeginObject(), out);
  } else {
    AddArguments(call_->arguments.EndElement(), out);
  }
}

void OutputParser::Close(std::string_view tag, ParsedText& out) {
  const std::string_view name = TagName(tag);
  const bool in_tools = channel_ == OutputChannel::kTools;
  if (name == "message") {
    EndCall(out);
    channel_ = OutputChannel::kNone;
  } else if (in_tools && (name == "argument" || name == "json")) {
    if (call_) AddArguments(call_->arguments.EndElement(), out);
  } else if (in_tools && name == "call") {
    EndCall(out);
  } else if (in_tools && name == "tools") {
    EndCall(out);
    channel_ = OutputChannel::kNone;
  } else if ((name == "think" && channel_ == OutputChannel::kThink) ||
             (name == "response" && channel_ == OutputChannel::kResponse)) {
    channel_ = OutputChannel::kNone;
  }
}

void OutputParser::BeginCall(std::string name, ParsedText& out) {
  ++num_calls_;
  call_.emplace();
  call_->call.id = fmt::format("call_{}", num_calls_);
  call_->call.name = name;
  out.calls.push_back({num_calls_ - 1, std::move(name), true, ""});
}

void OutputParser::AddArguments(std::string_view json, ParsedText& out) {
  if (json.empty()) return;
  call_->call.arguments_json += json;
  if (out.calls.empty() || out.calls.back().index != num_calls_ - 1) {
    out.calls.push_back({num_calls_ - 1, "", false, ""});
  }
  out.calls.back().arguments += json;
}

void OutputParser::EndCall(ParsedText& out) {
  if (!call_) return;
  AddArguments(call_->arguments.End(), out);
  tool_calls_.push_back(std::exchange(call_, std::nullopt)->call);
}

void OutputParser::EndMessage(ParsedText& out) {
  EndCall(out);
  channel_ = OutputChannel::kNone;
  ended_ = true;
}

}  // namespace deltafin
