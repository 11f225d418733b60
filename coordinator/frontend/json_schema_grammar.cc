#include "coordinator/frontend/json_schema_grammar.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Kind = JsonValue::Kind;

bool IsWanted(ValueForm form, JsonType type) {
  switch (form) {
    case ValueForm::kAny:
      return true;
    case ValueForm::kRawString:
      return type == JsonType::kString;
    case ValueForm::kNumber:
      return type == JsonType::kNumber || type == JsonType::kInteger;
    case ValueForm::kBoolean:
      return type == JsonType::kBoolean;
    case ValueForm::kNull:
      return type == JsonType::kNull;
    case ValueForm::kObject:
      return type == JsonType::kObject;
    case ValueForm::kArray:
      return type == JsonType::kArray;
  }
  return false;
}

JsonType TypeOf(const JsonValue& value) {
  switch (value.kind) {
    case Kind::kNull:
      return JsonType::kNull;
    case Kind::kBoolean:
      return JsonType::kBoolean;
    case Kind::kString:
      return JsonType::kString;
    case Kind::kObject:
      return JsonType::kObject;
    case Kind::kArray:
      return JsonType::kArray;
    case Kind::kNumber:
      break;
  }
  const bool is_whole = value.text.find_first_of(".eE") == std::string::npos;
  return is_whole ? JsonType::kInteger : JsonType::kNumber;
}

bool Holds(const std::vector<JsonType>& types, JsonType type) {
  const auto has = [&types](JsonType one) {
    return std::find(types.begin(), types.end(), one) != types.end();
  };
  return has(type) || (type == JsonType::kInteger && has(JsonType::kNumber));
}

}  // namespace

JsonSchemaGrammar::JsonSchemaGrammar(const JsonValue& schema, JsonGrammar& json)
    : reader_(schema), json_(json), grammar_(json.grammar()) {}

absl::StatusOr<GrammarNode> JsonSchemaGrammar::Value() {
  const GrammarNode rule = RuleOf(reader_.root(), ValueForm::kAny);
  RETURN_IF_ERROR(MakeRules());
  return rule;
}

absl::StatusOr<std::vector<ArgumentRules>> JsonSchemaGrammar::Arguments() {
  constexpr std::pair<std::string_view, ValueForm> kTypes[] = {
      {"string", ValueForm::kRawString}, {"number", ValueForm::kNumber},
      {"boolean", ValueForm::kBoolean},  {"null", ValueForm::kNull},
      {"object", ValueForm::kObject},    {"array", ValueForm::kArray}};
  ASSIGN_OR_RETURN(const ObjectSchema object, ArgumentsObject());
  std::vector<ArgumentRules> arguments;
  for (const SchemaProperty& property : object.properties) {
    ArgumentRules argument = {property.key, property.is_required, {}};
    for (const auto& [name, form] : kTypes) {
      argument.types.emplace_back(name, RuleOf(property.schema, form));
    }
    arguments.push_back(std::move(argument));
  }
  RETURN_IF_ERROR(MakeRules());
  return arguments;
}

absl::StatusOr<ObjectSchema> JsonSchemaGrammar::ArgumentsObject() {
  SchemaAt schema = reader_.root();
  if (schema.value->Find("$ref") != nullptr) {
    ASSIGN_OR_RETURN(schema, reader_.Resolve(schema));
  }
  if (schema.value->Find("allOf") != nullptr) return reader_.SumOfAllOf(schema);
  RETURN_IF_ERROR(reader_.AllowKeywords(
      schema, {"type", "properties", "required", "additionalProperties"}));
  ASSIGN_OR_RETURN(const std::vector<JsonType> types, reader_.Types(schema));
  if (Holds(types, JsonType::kObject)) return reader_.Object(schema);
  return reader_.Error(schema.place, "type", "arguments are of type object");
}

GrammarNode JsonSchemaGrammar::RuleOf(const SchemaAt& schema, ValueForm form) {
  const auto [at, is_new] = rules_.try_emplace({schema.value, form}, 0);
  if (is_new) {
    at->second = grammar_.AddNode();
    jobs_.push_back({schema, form, at->second});
  }
  return at->second;
}

absl::Status JsonSchemaGrammar::MakeRules() {
  while (!jobs_.empty()) {
    const Job job = jobs_.front();
    jobs_.pop_front();
    RETURN_IF_ERROR(MakeRule(job));
    if (grammar_.is_too_large()) {
      return reader_.Error(job.schema.place, "",
                           "up to here the schema has too many parts, such as "
                           "repetitions of a bounded number");
    }
  }
  return absl::OkStatus();
}

absl::Status JsonSchemaGrammar::MakeRule(const Job& job) {
  const JsonValue& schema = *job.schema.value;
  const GrammarNode end = grammar_.AddNode();
  grammar_.SetFinal(end);
  if (schema.kind == Kind::kBoolean) {
    if (schema.text == "false") return absl::OkStatus();
    if (job.form != ValueForm::kAny) return AddTypes(job, end);
    grammar_.Call(job.start, json_.any_value(), end);
    return absl::OkStatus();
  }
  if (schema.kind != Kind::kObject) {
    return reader_.Error(job.schema.place, "",
                         "expected a schema: an object or a boolean");
  }
  if (schema.Find("$ref") != nullptr) {
    ASSIGN_OR_RETURN(const SchemaAt target, reader_.Resolve(job.schema));
    grammar_.Call(job.start, RuleOf(target, job.form), end);
    return absl::OkStatus();
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (schema.Find(keyword) == nullptr) continue;
    RETURN_IF_ERROR(reader_.AllowKeywords(job.schema, {keyword}));
    return AddBranches(job, keyword, end);
  }
  if (const JsonValue* parts = schema.Find("allOf"); parts != nullptr) {
    const bool is_one = parts->items.size() == 1 &&
                        reader_.AllowKeywords(job.schema, {"allOf"}).ok();
    if (is_one) return AddBranches(job, "allOf", end);
    ASSIGN_OR_RETURN(const ObjectSchema sum, reader_.SumOfAllOf(job.schema));
    if (!IsWanted(job.form, JsonType::kObject)) return absl::OkStatus();
    return AddObject(job, sum, end);
  }
  if (schema.Find("enum") != nullptr || schema.Find("const") != nullptr) {
    return AddEnum(job, end);
  }
  return AddTypes(job, end);
}

absl::Status JsonSchemaGrammar::AddBranches(const Job& job,
                                            std::string_view keyword,
                                            GrammarNode end) {
  ASSIGN_OR_RETURN(const std::vector<SchemaAt> branches,
                   reader_.Branches(job.schema, keyword));
  for (const SchemaAt& branch : branches) {
    grammar_.Call(job.start, RuleOf(branch, job.form), end);
  }
  return absl::OkStatus();
}

absl::Status JsonSchemaGrammar::AddEnum(const Job& job, GrammarNode end) {
  const JsonValue* list = job.schema.value->Find("enum");
  const JsonValue* constant = job.schema.value->Find("const");
  RETURN_IF_ERROR(reader_.AllowKeywords(
      job.schema, {list != nullptr ? "enum" : "const", "type"}));
  ASSIGN_OR_RETURN(const std::vector<JsonType> types,
                   reader_.Types(job.schema));
  if (list != nullptr && (list->kind != Kind::kArray || list->items.empty())) {
    return reader_.Error(job.schema.place, "enum",
                         "expected an array that is not empty");
  }
  const std::span<const JsonValue> values =
      list != nullptr ? std::span<const JsonValue>(list->items)
                      : std::span<const JsonValue>(constant, 1);
  std::vector<std::string> texts;
  for (const JsonValue& value : values) {
    const JsonType type = TypeOf(value);
    if (!Holds(types, type) || !IsWanted(job.form, type)) continue;
    if (type == JsonType::kObject || type == JsonType::kArray) {
      json_.Value(job.start, value, end);
    } else if (job.form == ValueForm::kRawString) {
      texts.push_back(value.text);
    } else {
      texts.push_back(DumpJson(value));
    }
  }
  grammar_.Texts(job.start, texts, end);
  return absl::OkStatus();
}

absl::Status JsonSchemaGrammar::AddTypes(const Job& job, GrammarNode end) {
  RETURN_IF_ERROR(reader_.AllowKeywords(
      job.schema, {"type", "properties", "required", "additionalProperties",
                   "prefixItems", "items", "minItems", "maxItems", "minLength",
                   "maxLength", "pattern", "format", "minimum", "maximum",
                   "exclusiveMinimum", "exclusiveMaximum"}));
  ASSIGN_OR_RETURN(const std::vector<JsonType> types,
                   reader_.Types(job.schema));
  if (job.schema.value->Find("format") != nullptr &&
      !Holds(types, JsonType::kString)) {
    return reader_.Error(job.schema.place, "format",
                         "only formats of strings are supported");
  }
  for (const JsonType type : types) {
    if (!IsWanted(job.form, type)) continue;
    switch (type) {
      case JsonType::kNull:
        grammar_.Text(job.start, "null", end);
        break;
      case JsonType::kBoolean:
        grammar_.Text(job.start, "true", end);
        grammar_.Text(job.start, "false", end);
        break;
      case JsonType::kInteger:
      case JsonType::kNumber: {
        ASSIGN_OR_RETURN(const NumberBounds bounds, reader_.Bounds(job.schema));
        AddNumber(job.start, type, bounds, end);
        break;
      }
      case JsonType::kString:
        RETURN_IF_ERROR(AddString(job, end));
        break;
      case JsonType::kObject: {
        ASSIGN_OR_RETURN(const ObjectSchema object, reader_.Object(job.schema));
        RETURN_IF_ERROR(AddObject(job, object, end));
        break;
      }
      case JsonType::kArray:
        RETURN_IF_ERROR(AddArray(job, end));
        break;
    }
  }
  return absl::OkStatus();
}

void JsonSchemaGrammar::AddNumber(GrammarNode from, JsonType type,
                                  const NumberBounds& bounds, GrammarNode to) {
  const bool is_whole = type == JsonType::kInteger;
  if (!bounds.least && !bounds.most) {
    grammar_.Call(from, is_whole ? json_.any_integer() : json_.any_number(),
                  to);
  } else if (is_whole) {
    json_.Integer(from, bounds, to);
  } else {
    json_.Number(from, bounds, to);
  }
}

absl::Status JsonSchemaGrammar::AddString(const Job& job, GrammarNode end) {
  ASSIGN_OR_RETURN(const Repetition length,
                   reader_.Count(job.schema, "minLength", "maxLength"));
  const bool is_raw = job.form == ValueForm::kRawString;
  const StringForm form = is_raw ? StringForm::kRaw : StringForm::kQuoted;
  ASSIGN_OR_RETURN(const std::optional<StringPattern> pattern,
                   reader_.Pattern(job.schema));
  if (pattern) {
    AddPattern(*pattern, form, job.start, end, grammar_);
  } else if (length.least == 0 && !length.most) {
    grammar_.Call(job.start,
                  is_raw ? json_.any_raw_string() : json_.any_string(), end);
  } else {
    json_.String(job.start, length, form, end);
  }
  return absl::OkStatus();
}

// choices[i]: one of the properties from i on must come; done[i]: one came, and
// those from i on may follow.
absl::Status JsonSchemaGrammar::AddObject(const Job& job,
                                          const ObjectSchema& object,
                                          GrammarNode end) {
  const size_t count = object.properties.size();
  std::vector<GrammarNode> choices;
  std::vector<GrammarNode> done;
  for (size_t i = 0; i <= count; ++i) {
    choices.push_back(grammar_.AddNode());
    done.push_back(grammar_.AddNode());
  }
  const GrammarNode open = grammar_.AddNode();
  const GrammarNode first = grammar_.AddNode();
  grammar_.Symbol(job.start, '{', open);
  json_.Gap(open, first);
  grammar_.Empty(first, choices[0]);
  size_t last_required = count;  // none
  std::vector<std::string_view> names;
  for (size_t i = 0; i < count; ++i) {
    const SchemaProperty& property = object.properties[i];
    names.push_back(property.key);
    if (property.is_required) last_required = i;
    const GrammarNode colon = grammar_.AddNode();
    const GrammarNode value = grammar_.AddNode();
    grammar_.Text(choices[i], QuoteJson(property.key), colon);
    json_.Colon(colon, value);
    grammar_.Call(value, RuleOf(property.schema, ValueForm::kAny), done[i + 1]);
    if (!property.is_required) grammar_.Empty(choices[i], choices[i + 1]);
  }
  if (object.others) {
    const GrammarNode colon = grammar_.AddNode();
    const GrammarNode value = grammar_.AddNode();
    json_.OtherKey(choices[count], names, colon);
    json_.Colon(colon, value);
    grammar_.Call(value, RuleOf(*object.others, ValueForm::kAny), done[count]);
  }
  if (last_required == count) grammar_.Symbol(first, '}', end);
  for (size_t i = 0; i <= count; ++i) {
    const GrammarNode after = grammar_.AddNode();
    json_.Gap(done[i], after);
    const bool may_end = last_required == count || i > last_required;
    if (may_end) grammar_.Symbol(after, '}', end);
    const GrammarNode comma = grammar_.AddNode();
    grammar_.Symbol(after, ',', comma);
    json_.Gap(comma, choices[i]);
  }
  return absl::OkStatus();
}

absl::Status JsonSchemaGrammar::AddArray(const Job& job, GrammarNode end) {
  ASSIGN_OR_RETURN(const ArraySchema array, reader_.Array(job.schema));
  const int64_t num_prefix = std::ssize(array.prefix);
  const bool is_endless = array.others && !array.count.most;
  // Places that differ: beyond them everything is as at the last.
  const int64_t places =
      is_endless ? std::max(num_prefix, array.count.least) + 1
                 : std::min(array.count.most.value_or(num_prefix),
                            array.others ? kMaxSchemaCount : num_prefix);
  const GrammarNode first = grammar_.AddNode();
  GrammarNode value = grammar_.AddNode();
  grammar_.Symbol(job.start, '[', first);
  json_.Gap(first, value);
  if (array.count.least == 0) grammar_.Symbol(value, ']', end);
  for (int64_t i = 0; i < places && !grammar_.is_too_large(); ++i) {
    const SchemaAt& item = i < num_prefix ? array.prefix[i] : *array.others;
    const GrammarNode after = grammar_.AddNode();
    const GrammarNode more = grammar_.AddNode();
    grammar_.Call(value, RuleOf(item, ValueForm::kAny), after);
    json_.Gap(after, more);
    if (i + 1 >= array.count.least) grammar_.Symbol(more, ']', end);
    const bool is_last = i + 1 == places;
    if (is_last && !is_endless) break;
    const GrammarNode comma = grammar_.AddNode();
    grammar_.Symbol(more, ',', comma);
    const GrammarNode next = grammar_.AddNode();
    json_.Gap(comma, next);
    if (is_last) grammar_.Call(next, RuleOf(item, ValueForm::kAny), after);
    value = next;
  }
  return absl::OkStatus();
}

}  // namespace deltafin
