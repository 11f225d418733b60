// Input: token ids of a model's answer, one byte each: 0 to 3 are the control
// tokens of the chat format, 4 to 31 words of its tags, others themselves.
// Content and reasoning must be whole UTF-8, calls hold JSON or raw text.

#include "common/base/check.h"
#include "coordinator/frontend/output_parser.h"
#include "coordinator/frontend/utf8.h"
#include "tests/fuzz/coordinator/chat_tokenizer.h"

namespace {

int32_t IdOf(uint8_t byte) {
  const int32_t base = deltafin::ChatTokenizer().vocabulary().base();
  if (byte < 4) return base + byte;
  if (byte < 4 + deltafin::kNumTagWords) return 256 + byte - 4;
  return byte;
}

void CheckWhole(const deltafin::ParsedText& text) {
  CHECK(!deltafin::FirstInvalidUtf8(text.content));
  CHECK(!deltafin::FirstInvalidUtf8(text.reasoning));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  deltafin::OutputParser parser(
      deltafin::ChatTokenizer().vocabulary(),
      *deltafin::ChatTokens::Find(deltafin::ChatTokenizer()),
      deltafin::OutputChannel::kThink);
  for (size_t i = 0; i < size; ++i) CheckWhole(parser.Add(IdOf(bytes[i])));
  CheckWhole(parser.Finish(size % 2 == 0 ? deltafin::OutputEnd::kComplete
                                         : deltafin::OutputEnd::kCut));
  for (const deltafin::ToolCall& call : parser.tool_calls()) {
    CHECK(!deltafin::FirstInvalidUtf8(call.name));
    CHECK(!deltafin::FirstInvalidUtf8(call.arguments_json));
  }
  return 0;
}
