// tests/fuzz/coordinator/chat_tokenizer.h
//
// A tokenizer with the chat format's control tokens, small so that mutations
// meet all of it: 256 byte tokens, then words of the format's tags, then
// <|open|>, <|close|>, <|sep|> and <|end_of_msg|> from vocabulary().base() on.
#pragma once

#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

inline constexpr int kNumTagWords = 15;

const Tokenizer& ChatTokenizer();

}  // namespace deltafin
