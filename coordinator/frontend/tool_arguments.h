// coordinator/frontend/tool_arguments.h
//
// The arguments of one tool call as a JSON object that grows while the model
// writes them (docs/model.md section 9). Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace deltafin {

// Every method returns the text that it adds to the object; joined, they are
// the object, however the values were cut. Strings are quoted as they come.
// Values of other types are kept to their end: they stand as the model wrote
// them if they are JSON, and are quoted if not. A call whose first element is a
// `json` one is that text, whatever it holds; elements that do not go with the
// first are dropped.
class ToolArguments {
 public:
  // An `argument` element; ends the one before.
  std::string BeginArgument(std::string_view key, std::string_view type);
  // A `json` element: the object itself.
  std::string BeginObject();
  // Text inside of an element; outside it is dropped.
  std::string AddText(std::string_view text);
  // The end of the element, if one is open.
  std::string EndElement();
  // The end of the call.
  std::string End();

 private:
  enum class Element : uint8_t { kNone, kString, kOther, kObject };

  Element element_ = Element::kNone;  // open
  bool has_arguments_ = false;
  bool is_object_text_ = false;
  std::string value_;  // of a kOther so far
};

}  // namespace deltafin
