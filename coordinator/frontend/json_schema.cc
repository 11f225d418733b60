#include "coordinator/frontend/json_schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// Keywords that say nothing about values, or only hold what others refer to.
constexpr std::string_view kAnnotations[] = {
    "$comment",    "$defs",      "$schema",     "default",
    "definitions", "deprecated", "description", "examples",
    "readOnly",    "title",      "writeOnly"};
// Doubles hold every whole number below it.
constexpr double kMaxWhole = 9007199254740992.0;
constexpr size_t kMaxPathBytes = 512;

using Kind = JsonValue::Kind;

bool IsAnnotation(std::string_view keyword) {
  return std::find(std::begin(kAnnotations), std::end(kAnnotations), keyword) !=
         std::end(kAnnotations);
}

std::string PathOf(const SchemaPlace* place, std::string_view keyword) {
  std::vector<const SchemaPlace*> steps;
  for (; place->parent != nullptr; place = place->parent) {
    steps.push_back(place);
  }
  std::string path;
  for (size_t i = steps.size(); i > 0 && path.size() < kMaxPathBytes; --i) {
    const SchemaPlace& step = *steps[i - 1];
    path += step.index ? fmt::format("[{}]", *step.index)
                       : fmt::format("{}{}", path.empty() ? "" : ".", step.key);
  }
  if (keyword.empty()) return path;
  return fmt::format("{}{}{}", path, path.empty() ? "" : ".", keyword);
}

std::optional<int64_t> WholeNumber(const JsonValue& value) {
  if (value.kind != Kind::kNumber) return std::nullopt;
  int64_t whole = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto [rest, error] = std::from_chars(value.text.data(), end, whole);
  if (error == std::errc() && rest == end) return whole;
  double number = 0;
  if (!absl::SimpleAtod(value.text, &number) || number != std::floor(number) ||
      std::abs(number) > kMaxWhole) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

}  // namespace

SchemaReader::SchemaReader(const JsonValue& root) : root_(&root) {}

absl::Status SchemaReader::Error(const SchemaPlace* place,
                                 std::string_view keyword,
                                 std::string_view message) {
  where_ = PathOf(place, keyword);
  return absl::InvalidArgumentError(std::string(message));
}

SchemaAt SchemaReader::Below(const SchemaAt& schema, std::string_view key,
                             const JsonValue& value) {
  places_.push_back({schema.place, key, std::nullopt});
  return {&value, &places_.back()};
}

SchemaAt SchemaReader::Item(const SchemaAt& array, size_t index) {
  places_.push_back({array.place, "", index});
  return {&array.value->items[index], &places_.back()};
}

absl::Status SchemaReader::AllowKeywords(
    const SchemaAt& schema, std::initializer_list<std::string_view> names) {
  for (const JsonMember& member : schema.value->members) {
    const bool is_known =
        IsAnnotation(member.key) ||
        std::find(names.begin(), names.end(), member.key) != names.end();
    if (is_known) continue;
    return Error(schema.place, member.key,
                 "this keyword is not supported here");
  }
  return absl::OkStatus();
}

absl::StatusOr<const JsonValue*> SchemaReader::Member(const SchemaAt& schema,
                                                      std::string_view keyword,
                                                      Kind kind) {
  const JsonValue* value = schema.value->Find(keyword);
  if (value == nullptr || value->kind == kind) return value;
  return Error(
      schema.place, keyword,
      kind == Kind::kArray ? "expected an array" : "expected an object");
}

absl::StatusOr<SchemaAt> SchemaReader::Resolve(const SchemaAt& schema) {
  RETURN_IF_ERROR(AllowKeywords(schema, {"$ref"}));
  const JsonValue& ref = *schema.value->Find("$ref");
  if (ref.kind != Kind::kString || !ref.text.starts_with('#')) {
    return Error(schema.place, "$ref",
                 "expected a reference inside the schema: \"#/$defs/name\"");
  }
  if (const auto known = resolved_.find(ref.text); known != resolved_.end()) {
    return known->second;
  }
  SchemaAt at = root();
  std::string_view rest = std::string_view(ref.text).substr(1);
  while (!rest.empty()) {
    if (rest[0] != '/') return Error(schema.place, "$ref", "no JSON pointer");
    rest.remove_prefix(1);
    const std::string_view step = rest.substr(0, rest.find('/'));
    rest.remove_prefix(step.size());
    const std::string key =
        absl::StrReplaceAll(absl::string_view(step.data(), step.size()),
                            {{"~1", "/"}, {"~0", "~"}});
    const auto member =
        std::find_if(at.value->members.begin(), at.value->members.end(),
                     [&](const JsonMember& m) { return m.key == key; });
    size_t index = 0;
    if (member != at.value->members.end()) {
      at = Below(at, member->key, member->value);
    } else if (absl::SimpleAtoi(key, &index) &&
               index < at.value->items.size()) {
      at = Item(at, index);
    } else {
      return Error(schema.place, "$ref", "there is nothing at this place");
    }
  }
  resolved_[ref.text] = at;
  return at;
}

absl::StatusOr<std::vector<SchemaAt>> SchemaReader::Branches(
    const SchemaAt& schema, std::string_view keyword) {
  const JsonValue& value = *schema.value->Find(keyword);
  if (value.kind != Kind::kArray || value.items.empty() ||
      value.items.size() > kMaxSchemaProperties) {
    return Error(schema.place, keyword,
                 fmt::format("expected an array of 1 to {} schemas",
                             kMaxSchemaProperties));
  }
  const SchemaAt array = Below(schema, keyword, value);
  std::vector<SchemaAt> branches;
  for (size_t i = 0; i < value.items.size(); ++i) {
    branches.push_back(Item(array, i));
  }
  return branches;
}

absl::StatusOr<std::vector<JsonType>> SchemaReader::Types(
    const SchemaAt& schema) {
  constexpr std::pair<std::string_view, JsonType> kNames[] = {
      {"object", JsonType::kObject},   {"array", JsonType::kArray},
      {"string", JsonType::kString},   {"number", JsonType::kNumber},
      {"integer", JsonType::kInteger}, {"boolean", JsonType::kBoolean},
      {"null", JsonType::kNull}};
  const JsonValue* value = schema.value->Find("type");
  const JsonValue all;
  const std::vector<JsonValue> one = {value == nullptr ? all : *value};
  std::vector<JsonType> types;
  const bool is_list = value != nullptr && value->kind == Kind::kArray;
  for (const JsonValue& name : is_list ? value->items : one) {
    for (const auto& [known, type] : kNames) {
      const bool is_meant =
          value == nullptr ? type != JsonType::kInteger
                           : name.kind == Kind::kString && name.text == known;
      if (is_meant) types.push_back(type);
    }
  }
  const size_t expected = is_list ? value->items.size() : 1;
  const std::vector<JsonType> in_order = types;
  std::sort(types.begin(), types.end());
  const bool is_once =
      std::adjacent_find(types.begin(), types.end()) == types.end();
  if (!types.empty() && is_once &&
      (value == nullptr || types.size() == expected)) {
    return in_order;
  }
  return Error(schema.place, "type",
               "expected null, boolean, integer, number, string, object or "
               "array, or a list of them");
}

absl::StatusOr<std::optional<int64_t>> SchemaReader::Whole(
    const SchemaAt& schema, std::string_view keyword) {
  const JsonValue* value = schema.value->Find(keyword);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> whole = WholeNumber(*value);
  if (whole) return whole;
  return Error(schema.place, keyword, "only whole numbers are supported");
}

absl::StatusOr<NumberBounds> SchemaReader::Bounds(const SchemaAt& schema) {
  NumberBounds bounds;
  ASSIGN_OR_RETURN(bounds.least, Whole(schema, "minimum"));
  ASSIGN_OR_RETURN(bounds.most, Whole(schema, "maximum"));
  ASSIGN_OR_RETURN(const auto above, Whole(schema, "exclusiveMinimum"));
  ASSIGN_OR_RETURN(const auto below, Whole(schema, "exclusiveMaximum"));
  if (above && (!bounds.least || *above >= *bounds.least)) {
    bounds.least = above;
    bounds.is_least_excluded = true;
  }
  if (below && (!bounds.most || *below <= *bounds.most)) {
    bounds.most = below;
    bounds.is_most_excluded = true;
  }
  return bounds;
}

absl::StatusOr<Repetition> SchemaReader::Count(const SchemaAt& schema,
                                               std::string_view least,
                                               std::string_view most) {
  Repetition count;
  ASSIGN_OR_RETURN(const auto at_least, Whole(schema, least));
  ASSIGN_OR_RETURN(count.most, Whole(schema, most));
  count.least = at_least.value_or(0);
  for (const auto& [keyword, value] :
       {std::pair(least, at_least), std::pair(most, count.most)}) {
    if (value && (*value < 0 || *value > kMaxSchemaCount)) {
      return Error(schema.place, keyword,
                   fmt::format("expected 0 to {}", kMaxSchemaCount));
    }
  }
  if (count.most && *count.most < count.least) {
    return Error(schema.place, most, fmt::format("below {}", least));
  }
  return count;
}

}  // namespace deltafin
