// SchemaReader: what schemas hold below them.

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/json_schema.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Kind = JsonValue::Kind;

// What stands for "any value" where a schema says nothing.
const JsonValue& AnySchema() {
  static const JsonValue* const any =
      new JsonValue{Kind::kBoolean, "true", {}, {}};
  return *any;
}

bool IsFalse(const JsonValue& schema) {
  return schema.kind == Kind::kBoolean && schema.text == "false";
}

}  // namespace

absl::StatusOr<std::optional<StringPattern>> SchemaReader::Pattern(
    const SchemaAt& schema) {
  const JsonValue* pattern = schema.value->Find("pattern");
  const JsonValue* format = schema.value->Find("format");
  if (pattern == nullptr && format == nullptr) return std::nullopt;
  const char* const keyword = pattern != nullptr ? "pattern" : "format";
  const JsonValue& text = pattern != nullptr ? *pattern : *format;
  if (text.kind != Kind::kString) {
    return Error(schema.place, keyword, "expected a string");
  }
  const bool is_alone = (pattern == nullptr || format == nullptr) &&
                        schema.value->Find("minLength") == nullptr &&
                        schema.value->Find("maxLength") == nullptr;
  if (!is_alone) {
    return Error(schema.place, keyword,
                 "of pattern, format and a bounded length one alone is "
                 "supported");
  }
  const auto known = PatternOfFormat(text.text);
  if (pattern == nullptr && !known) {
    return Error(schema.place, keyword,
                 "only date, time, date-time, uuid, ipv4 and email are "
                 "supported");
  }
  auto parsed = ParseStringPattern(pattern != nullptr ? text.text : *known);
  if (parsed.ok()) return *std::move(parsed);
  return Error(schema.place, keyword, std::string(parsed.status().message()));
}

absl::StatusOr<ObjectSchema> SchemaReader::Object(const SchemaAt& schema) {
  ObjectSchema object;
  const JsonValue* others = schema.value->Find("additionalProperties");
  if (others == nullptr) {
    object.others = SchemaAt{&AnySchema(), schema.place};
  } else if (!IsFalse(*others)) {
    object.others = Below(schema, "additionalProperties", *others);
  }
  RETURN_IF_ERROR(AddProperties(schema, object));
  RETURN_IF_ERROR(AddRequired(schema, object));
  return object;
}

absl::Status SchemaReader::AddProperties(const SchemaAt& schema,
                                         ObjectSchema& object) {
  ASSIGN_OR_RETURN(const JsonValue* properties,
                   Member(schema, "properties", Kind::kObject));
  if (properties == nullptr) return absl::OkStatus();
  if (object.properties.size() + properties->members.size() >
      kMaxSchemaProperties) {
    return Error(schema.place, "properties",
                 fmt::format("more than {}", kMaxSchemaProperties));
  }
  const SchemaAt at = Below(schema, "properties", *properties);
  for (const JsonMember& member : properties->members) {
    object.properties.push_back(
        {member.key, Below(at, member.key, member.value), false});
  }
  return absl::OkStatus();
}

absl::Status SchemaReader::AddRequired(const SchemaAt& schema,
                                       ObjectSchema& object) {
  ASSIGN_OR_RETURN(const JsonValue* required,
                   Member(schema, "required", Kind::kArray));
  absl::flat_hash_map<std::string_view, size_t> known;
  for (size_t i = 0; i < object.properties.size(); ++i) {
    const bool is_new = known.try_emplace(object.properties[i].key, i).second;
    if (is_new) continue;
    return Error(object.properties[i].schema.place, "",
                 "this property comes twice in allOf");
  }
  if (required == nullptr) return absl::OkStatus();
  for (const JsonValue& name : required->items) {
    if (name.kind != Kind::kString) {
      return Error(schema.place, "required", "expected an array of strings");
    }
    const auto [at, is_new] =
        known.try_emplace(name.text, object.properties.size());
    if (is_new && !object.others) {
      return Error(schema.place, "required",
                   fmt::format("\"{}\" is no property, and there may be no "
                               "others",
                               name.text));
    }
    if (is_new) object.properties.push_back({name.text, *object.others, true});
    object.properties[at->second].is_required = true;
  }
  if (object.properties.size() > kMaxSchemaProperties) {
    return Error(schema.place, "required",
                 fmt::format("more than {}", kMaxSchemaProperties));
  }
  return absl::OkStatus();
}

absl::StatusOr<ArraySchema> SchemaReader::Array(const SchemaAt& schema) {
  ArraySchema array;
  ASSIGN_OR_RETURN(array.count, Count(schema, "minItems", "maxItems"));
  if (schema.value->Find("prefixItems") != nullptr) {
    ASSIGN_OR_RETURN(array.prefix, Branches(schema, "prefixItems"));
  }
  const JsonValue* items = schema.value->Find("items");
  if (items == nullptr) {
    array.others = SchemaAt{&AnySchema(), schema.place};
  } else if (!IsFalse(*items)) {
    array.others = Below(schema, "items", *items);
  }
  if (array.others || array.count.least <= std::ssize(array.prefix)) {
    return array;
  }
  return Error(schema.place, "minItems", "there may not be so many items");
}

absl::StatusOr<ObjectSchema> SchemaReader::SumOfAllOf(const SchemaAt& schema) {
  RETURN_IF_ERROR(
      AllowKeywords(schema, {"allOf", "type", "properties", "required"}));
  ASSIGN_OR_RETURN(std::vector<SchemaAt> parts, Branches(schema, "allOf"));
  ObjectSchema sum;
  sum.others = SchemaAt{&AnySchema(), schema.place};
  for (SchemaAt& part : parts) {
    if (part.value->Find("$ref") != nullptr) {
      ASSIGN_OR_RETURN(part, Resolve(part));
    }
    RETURN_IF_ERROR(AllowKeywords(part, {"type", "properties", "required"}));
    const JsonValue* type = part.value->Find("type");
    if (type == nullptr || type->text != "object") {
      return Error(part.place, "type",
                   "of several schemas in allOf each must be of type object");
    }
  }
  parts.push_back(schema);
  for (const SchemaAt& part : parts) {
    RETURN_IF_ERROR(AddProperties(part, sum));
  }
  for (const SchemaAt& part : parts) RETURN_IF_ERROR(AddRequired(part, sum));
  return sum;
}

}  // namespace deltafin
