#include "tests/fuzz/coordinator/chat_tokenizer.h"

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace deltafin {
namespace {

constexpr const char* kTagWords[kNumTagWords] = {
    "think",  "response", "tools",    "call",    "argument",
    "json",   "message",  " tool=\"", " key=\"", " type=\"",
    "string", "number",   "\"",       "&quot;",  "{\"a\": 1}"};

Tokenizer MakeTokenizer() {
  std::string ranks;
  int rank = 0;
  for (; rank < 256; ++rank) {
    const std::string token(1, static_cast<char>(rank));
    absl::StrAppend(&ranks, absl::Base64Escape(token), " ", rank, "\n");
  }
  for (const char* word : kTagWords) {
    if (std::string_view(word).size() == 1) word = " unused ";
    absl::StrAppend(&ranks, absl::Base64Escape(word), " ", rank++, "\n");
  }
  std::string names;
  for (const char* name :
       {"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"}) {
    absl::StrAppend(&names, names.empty() ? "" : ",", "\"", rank++,
                    "\":{\"content\":\"", name, "\"}");
  }
  return Tokenizer(*Vocabulary::Parse(
      ranks, absl::StrCat("{\"added_tokens_decoder\":{", names, "}}")));
}

}  // namespace

const Tokenizer& ChatTokenizer() {
  static const Tokenizer tokenizer = MakeTokenizer();
  return tokenizer;
}

}  // namespace deltafin
