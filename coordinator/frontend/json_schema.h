// coordinator/frontend/json_schema.h
//
// Reads JSON schemas keyword by keyword. docs/structured_output.md lists the
// keywords and what they mean here; one that is not enforced is an error, never
// ignored. Thread-compatible.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "coordinator/frontend/json_grammar.h"
#include "coordinator/frontend/python_json.h"
#include "coordinator/frontend/string_pattern.h"

namespace deltafin {

inline constexpr size_t kMaxSchemaBytes = size_t{256} << 10;
// Of minLength, maxItems and their like.
inline constexpr int64_t kMaxSchemaCount = 10'000;
// Of one object; and the branches of one anyOf.
inline constexpr size_t kMaxSchemaProperties = 512;

// Where in the document a schema stands.
struct SchemaPlace {
  const SchemaPlace* parent = nullptr;
  std::string_view key;
  std::optional<size_t> index;  // instead of the key
};

struct SchemaAt {
  const JsonValue* value = nullptr;
  const SchemaPlace* place = nullptr;
};

struct SchemaProperty {
  std::string_view key;
  SchemaAt schema;
  bool is_required = false;
};

struct ObjectSchema {
  std::vector<SchemaProperty> properties;
  std::optional<SchemaAt> others;  // absent: there may be no others
};

struct ArraySchema {
  std::vector<SchemaAt> prefix;
  std::optional<SchemaAt> others;  // absent: there may be no others
  Repetition count;
};

// The values of `type`.
enum class JsonType : uint8_t {
  kNull,
  kBoolean,
  kInteger,
  kNumber,
  kString,
  kObject,
  kArray
};

// Errors of all: INVALID_ARGUMENT; `where` then holds the path of the keyword
// in error, "properties.a.pattern".
class SchemaReader {
 public:
  // `root` must outlive the reader, and the reader what it returns.
  explicit SchemaReader(const JsonValue& root);

  SchemaAt root() const { return {root_, &root_place_}; }
  const std::string& where() const { return where_; }

  // The keywords that say something must be among these.
  absl::Status AllowKeywords(const SchemaAt& schema,
                             std::initializer_list<std::string_view> names);
  // What a $ref stands for.
  absl::StatusOr<SchemaAt> Resolve(const SchemaAt& schema);
  // A member that is an array of schemas, not empty.
  absl::StatusOr<std::vector<SchemaAt>> Branches(const SchemaAt& schema,
                                                 std::string_view keyword);
  absl::StatusOr<std::vector<JsonType>> Types(const SchemaAt& schema);
  absl::StatusOr<NumberBounds> Bounds(const SchemaAt& schema);
  absl::StatusOr<Repetition> Count(const SchemaAt& schema,
                                   std::string_view least,
                                   std::string_view most);
  // What pattern or format say.
  absl::StatusOr<std::optional<StringPattern>> Pattern(const SchemaAt& schema);
  absl::StatusOr<ObjectSchema> Object(const SchemaAt& schema);
  // What several object schemas in allOf say together with the one around it.
  absl::StatusOr<ObjectSchema> SumOfAllOf(const SchemaAt& schema);
  absl::StatusOr<ArraySchema> Array(const SchemaAt& schema);

  SchemaAt Below(const SchemaAt& schema, std::string_view key,
                 const JsonValue& value);
  SchemaAt Item(const SchemaAt& array, size_t index);
  absl::Status Error(const SchemaPlace* place, std::string_view keyword,
                     std::string_view message);

 private:
  absl::StatusOr<std::optional<int64_t>> Whole(const SchemaAt& schema,
                                               std::string_view keyword);
  absl::StatusOr<const JsonValue*> Member(const SchemaAt& schema,
                                          std::string_view keyword,
                                          JsonValue::Kind kind);
  absl::Status AddRequired(const SchemaAt& schema, ObjectSchema& object);
  absl::Status AddProperties(const SchemaAt& schema, ObjectSchema& object);

  const JsonValue* const root_;
  const SchemaPlace root_place_;
  std::deque<SchemaPlace> places_;
  absl::flat_hash_map<std::string_view, SchemaAt> resolved_;
  std::string where_;
};

}  // namespace deltafin
