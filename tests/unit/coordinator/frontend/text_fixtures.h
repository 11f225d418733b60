// tests/unit/coordinator/frontend/text_fixtures.h
//
// Tokenizers of the shared models, fixture files and the Python reference.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/frontend/chat_request.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

inline const std::string kNanoDir =
    DELTAFIN_SOURCE_DIR "/deploy/models/k3-nano";
inline const std::string kTinyDir = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";
inline const std::string kTextGoldens =
    DELTAFIN_SOURCE_DIR "/tests/golden/text";

const Tokenizer& NanoTokenizer();  // 3,840 ranks
const Tokenizer& TinyTokenizer();  // 384 ranks

std::string ReadAll(const std::string& path);

// Ids that spell `control_text` with control tokens.
std::vector<int32_t> ControlIds(std::string_view control_text);

// `count` cases of reference_cases.py for k3-nano, made by the reference.
nlohmann::json ReferenceCases(const std::string& kind, int count);

// The arguments of k3_chat.render as a ChatRequest. Read by ParseJson, since
// the reference's JSON holds Infinity.
ChatRequest ChatFromJson(std::string_view render_arguments);

}  // namespace deltafin
