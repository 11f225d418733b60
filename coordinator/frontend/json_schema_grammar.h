// coordinator/frontend/json_schema_grammar.h
//
// The texts of the values that a JSON schema allows, as rules of a grammar.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "coordinator/frontend/json_grammar.h"
#include "coordinator/frontend/json_schema.h"

namespace deltafin {

// Which of its values a schema is asked for, and how they are written.
enum class ValueForm : uint8_t {
  kAny,  // as JSON
  kRawString,
  kNumber,
  kBoolean,
  kNull,
  kObject,
  kArray,
};

// An argument of a tool: its values by the types that they can have.
struct ArgumentRules {
  std::string_view key;
  bool is_required = false;
  // The type's name in the chat format, and the rule; one that has no text
  // stands for a type that the argument cannot have.
  std::vector<std::pair<std::string_view, GrammarNode>> types;
};

// Members of objects come in the order of `properties`, others after them.
// Errors of all: INVALID_ARGUMENT; where() is then the path of the keyword.
class JsonSchemaGrammar {
 public:
  // Both must outlive this.
  JsonSchemaGrammar(const JsonValue& schema, JsonGrammar& json);

  // Once, either.
  absl::StatusOr<GrammarNode> Value();
  // Of a schema that allows an object: what its properties say.
  absl::StatusOr<std::vector<ArgumentRules>> Arguments();

  const std::string& where() const { return reader_.where(); }

 private:
  // A rule to be made.
  struct Job {
    SchemaAt schema;
    ValueForm form = ValueForm::kAny;
    GrammarNode start = 0;
  };

  GrammarNode RuleOf(const SchemaAt& schema, ValueForm form);
  absl::Status MakeRules();
  absl::Status MakeRule(const Job& job);
  absl::Status AddBranches(const Job& job, std::string_view keyword,
                           GrammarNode end);
  absl::Status AddEnum(const Job& job, GrammarNode end);
  absl::Status AddTypes(const Job& job, GrammarNode end);
  void AddNumber(GrammarNode from, JsonType type, const NumberBounds& bounds,
                 GrammarNode to);
  absl::Status AddString(const Job& job, GrammarNode end);
  absl::Status AddObject(const Job& job, const ObjectSchema& object,
                         GrammarNode end);
  absl::Status AddArray(const Job& job, GrammarNode end);
  absl::StatusOr<ObjectSchema> ArgumentsObject();

  SchemaReader reader_;
  JsonGrammar& json_;
  ByteGrammar& grammar_;
  std::deque<Job> jobs_;
  absl::flat_hash_map<std::pair<const JsonValue*, ValueForm>, GrammarNode>
      rules_;
};

}  // namespace deltafin
