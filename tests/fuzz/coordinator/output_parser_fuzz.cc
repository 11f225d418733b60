// Input: token ids of a model's answer, one byte each: 0 to 3 are the control
// tokens of the chat format, 4 to 31 words of its tags, others themselves.
// Content and reasoning must be whole UTF-8, calls hold JSON or raw text.

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/frontend/output_parser.h"
#include "coordinator/frontend/utf8.h"

namespace {

constexpr const char* kWords[] = {
    "think",  "response", "tools",    "call",    "argument",
    "json",   "message",  " tool=\"", " key=\"", " type=\"",
    "string", "number",   "\"",       "&quot;",  "{\"a\": 1}"};
constexpr int kNumWords = std::size(kWords);

const deltafin::Tokenizer& ChatTokenizer() {
  static const deltafin::Tokenizer tokenizer = [] {
    std::string ranks;
    int rank = 0;
    for (; rank < 256; ++rank) {
      const std::string token(1, static_cast<char>(rank));
      absl::StrAppend(&ranks, absl::Base64Escape(token), " ", rank, "\n");
    }
    for (const char* word : kWords) {
      if (std::string_view(word).size() == 1) word = " unused ";
      absl::StrAppend(&ranks, absl::Base64Escape(word), " ", rank++, "\n");
    }
    std::string names;
    for (const char* name :
         {"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"}) {
      absl::StrAppend(&names, names.empty() ? "" : ",", "\"", rank++,
                      "\":{\"content\":\"", name, "\"}");
    }
    return deltafin::Tokenizer(*deltafin::Vocabulary::Parse(
        ranks, absl::StrCat("{\"added_tokens_decoder\":{", names, "}}")));
  }();
  return tokenizer;
}

int32_t IdOf(uint8_t byte) {
  const int32_t base = ChatTokenizer().vocabulary().base();
  if (byte < 4) return base + byte;
  if (byte < 4 + kNumWords) return 256 + byte - 4;
  return byte;
}

void CheckWhole(const deltafin::ParsedText& text) {
  CHECK(!deltafin::FirstInvalidUtf8(text.content));
  CHECK(!deltafin::FirstInvalidUtf8(text.reasoning));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  deltafin::OutputParser parser(ChatTokenizer().vocabulary(),
                                *deltafin::ChatTokens::Find(ChatTokenizer()),
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
