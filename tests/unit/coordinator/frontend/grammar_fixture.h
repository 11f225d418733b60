// tests/unit/coordinator/frontend/grammar_fixture.h
//
// Grammars of schemas, what they accept, and texts drawn from them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "coordinator/frontend/grammar_states.h"
#include "coordinator/frontend/json_grammar.h"
#include "coordinator/frontend/json_schema_grammar.h"
#include "coordinator/frontend/python_json.h"

namespace deltafin {

using GrammarPtr = std::shared_ptr<const ByteGrammar>;

// The grammar of a schema. `where`: see JsonSchemaGrammar.
inline absl::StatusOr<GrammarPtr> GrammarOfSchema(const std::string& schema,
                                                  std::string& where) {
  const absl::StatusOr<JsonValue> value = ParseStrictJson(schema, where);
  if (!value.ok()) return value.status();
  auto grammar = std::make_shared<ByteGrammar>();
  JsonGrammar json(*grammar);
  JsonSchemaGrammar rules(*value, json);
  const auto start = rules.Value();
  where = rules.where();
  if (!start.ok()) return start.status();
  const absl::Status status = grammar->Finish(*start);
  if (!status.ok()) return status;
  return grammar;
}

inline GrammarPtr GrammarOf(const std::string& schema) {
  std::string where;
  const auto grammar = GrammarOfSchema(schema, where);
  EXPECT_TRUE(grammar.ok())
      << schema << ": " << where << ": " << grammar.status();
  return grammar.value_or(nullptr);
}

// kNo: no text begins so.
enum class Reading : uint8_t { kNo, kBegins, kComplete };

inline Reading Read(const GrammarPtr& grammar, std::string_view text) {
  GrammarStates states(grammar);
  GrammarStates::State state = states.start();
  for (const char c : text) {
    if (state == GrammarStates::kDead) break;
    state = states.Next(state, static_cast<uint8_t>(c));
  }
  if (state == GrammarStates::kDead) return Reading::kNo;
  return states.is_complete(state) ? Reading::kComplete : Reading::kBegins;
}

// Random symbols that the grammar allows; after a while those that lead to an
// end.
inline std::string DrawText(const GrammarPtr& grammar, uint32_t seed) {
  constexpr int kFree = 150;
  constexpr std::string_view kEnding = "\"}]0.nt:,";
  std::mt19937 random(seed);
  GrammarStates states(grammar);
  GrammarStates::State state = states.start();
  std::string text;
  while (text.size() < 5000) {
    if (states.is_complete(state) &&
        (text.size() > kFree || random() % 4 == 0)) {
      return text;
    }
    std::string allowed;
    for (int byte = 0; byte < 256; ++byte) {
      const auto symbol = static_cast<GrammarSymbol>(byte);
      if (states.Next(state, symbol) != GrammarStates::kDead) {
        allowed += static_cast<char>(byte);
      }
    }
    if (allowed.empty()) break;
    char next = allowed[random() % allowed.size()];
    if (text.size() > kFree) {
      const size_t at = kEnding.find_first_of(allowed);
      if (at != std::string_view::npos) next = kEnding[at];
    }
    text += next;
    state = states.Next(state, static_cast<uint8_t>(next));
  }
  EXPECT_TRUE(states.is_complete(state)) << "no end: " << text;
  return text;
}

}  // namespace deltafin
