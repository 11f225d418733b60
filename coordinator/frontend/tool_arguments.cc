#include "coordinator/frontend/tool_arguments.h"

#include <utility>

#include "coordinator/frontend/python_json.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

std::string ToolArguments::BeginArgument(std::string_view key,
                                         std::string_view type) {
  std::string added = EndElement();
  if (is_object_text_) return added;
  added += fmt::format("{}{}: ", has_arguments_ ? ", " : "{", QuoteJson(key));
  has_arguments_ = true;
  element_ = type == "string" ? Element::kString : Element::kOther;
  if (element_ == Element::kString) added += '"';
  return added;
}

std::string ToolArguments::BeginObject() {
  std::string added = EndElement();
  if (has_arguments_ || is_object_text_) return added;
  is_object_text_ = true;
  element_ = Element::kObject;
  return added;
}

std::string ToolArguments::AddText(std::string_view text) {
  switch (element_) {
    case Element::kNone:
      return "";
    case Element::kString: {
      const std::string quoted = QuoteJson(text);
      return quoted.substr(1, quoted.size() - 2);
    }
    case Element::kOther:
      value_ += text;
      return "";
    case Element::kObject:
      return std::string(text);
  }
  return "";
}

std::string ToolArguments::EndElement() {
  const Element ended = std::exchange(element_, Element::kNone);
  if (ended == Element::kString) return "\"";
  if (ended != Element::kOther) return "";
  std::string value = std::exchange(value_, "");
  return ParseJson(value).ok() ? value : QuoteJson(value);
}

std::string ToolArguments::End() {
  std::string added = EndElement();
  if (is_object_text_) return added;
  return added + (has_arguments_ ? "}" : "{}");
}

}  // namespace deltafin
