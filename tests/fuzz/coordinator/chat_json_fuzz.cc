// Input: JSON of tools, tool arguments and response schema, one text for all.
// What is accepted must be written in a form that is read back as the same.

#include <string>
#include <string_view>

#include "common/base/check.h"
#include "coordinator/frontend/chat_template.h"
#include "coordinator/frontend/python_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto value = deltafin::ParseJson(text);
  if (value.ok()) {
    const std::string dumped = deltafin::DumpJson(*value);
    const auto again = deltafin::ParseJson(dumped);
    CHECK_OK(again.status());
    CHECK(deltafin::DumpJson(*again) == dumped);
    CHECK(deltafin::DumpCompactSortedJson(*again) ==
          deltafin::DumpCompactSortedJson(*value));
  }
  deltafin::ChatRequest request;
  request.messages.resize(2);
  request.messages[0].role = deltafin::ChatRole::kSystem;
  request.messages[0].tools_json = text;
  request.messages[1].role = deltafin::ChatRole::kAssistant;
  request.messages[1].tool_calls = {{"id", "tool", text}};
  request.tools_json = text;
  request.response_format = deltafin::ResponseFormat::kJsonSchema;
  request.response_schema_json = text;
  const auto whole = deltafin::RenderChat(request);
  CHECK(whole.ok() || absl::IsInvalidArgument(whole.status()));
  deltafin::ChatRequest call_only;
  call_only.messages = {request.messages[1]};
  const auto rendered = deltafin::RenderChat(call_only);
  CHECK(rendered.ok() || absl::IsInvalidArgument(rendered.status()));
  return 0;
}
