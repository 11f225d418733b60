#include "coordinator/frontend/openai_fields.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>

#include "common/base/status_macros.h"
#include "coordinator/frontend/openai_error.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Kind = JsonValue::Kind;

std::optional<int64_t> ParseInteger(const JsonValue& value) {
  if (value.kind != Kind::kNumber) return std::nullopt;
  int64_t integer = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto [rest, error] = std::from_chars(value.text.data(), end, integer);
  if (error != std::errc() || rest != end) return std::nullopt;
  return integer;
}

const char* TypeName(FieldType type) {
  switch (type) {
    case FieldType::kBoolean:
      return "true or false";
    case FieldType::kInteger:
      return "an integer";
    case FieldType::kNumber:
      return "a number";
    case FieldType::kString:
      return "a string";
    case FieldType::kArray:
      return "an array";
    case FieldType::kObject:
      return "an object";
    case FieldType::kAny:
      break;
  }
  return "a value";
}

bool IsOfType(const JsonValue& value, FieldType type) {
  switch (type) {
    case FieldType::kBoolean:
      return value.kind == Kind::kBoolean;
    case FieldType::kInteger:
      return ParseInteger(value).has_value();
    case FieldType::kNumber:
      return value.kind == Kind::kNumber;
    case FieldType::kString:
      return value.kind == Kind::kString;
    case FieldType::kArray:
      return value.kind == Kind::kArray;
    case FieldType::kObject:
      return value.kind == Kind::kObject;
    case FieldType::kAny:
      break;
  }
  return true;
}

absl::Status CheckField(const OpenAiField& field, const JsonValue& value) {
  RETURN_IF_ERROR(RequireType(value, field.type, field.name));
  if (field.type != FieldType::kInteger && field.type != FieldType::kNumber) {
    return absl::OkStatus();
  }
  const double number = NumberOf(value);
  if (number >= field.least && number <= field.most) return absl::OkStatus();
  return FieldError(field.name, fmt::format("{} is not in [{}, {}]", value.text,
                                            field.least, field.most));
}

const OpenAiField* FindField(std::initializer_list<OpenAiFields> tables,
                             std::string_view name) {
  for (const OpenAiFields& table : tables) {
    for (const OpenAiField& field : table) {
      if (field.name == name) return &field;
    }
  }
  return nullptr;
}

}  // namespace

absl::Status RequireType(const JsonValue& value, FieldType type,
                         std::string_view path) {
  if (IsOfType(value, type)) return absl::OkStatus();
  return FieldError(path, fmt::format("expected {}", TypeName(type)),
                    "invalid_type");
}

absl::Status ReadFields(std::initializer_list<OpenAiFields> tables,
                        const JsonValue& object, OpenAiRequest& request) {
  for (const JsonMember& member : object.members) {
    const OpenAiField* field = FindField(tables, member.key);
    if (field == nullptr) {
      return FieldError(member.key, "no field of this request",
                        "unknown_parameter");
    }
    if (member.value.kind == Kind::kNull &&
        field->null_means == NullMeans::kAbsent) {
      continue;
    }
    RETURN_IF_ERROR(CheckField(*field, member.value));
    if (field->read == nullptr) {
      return NotSupported(member.key, "is not supported here; leave it out");
    }
    RETURN_IF_ERROR(field->read(member.value, request));
  }
  return absl::OkStatus();
}

int64_t IntegerOf(const JsonValue& value) {
  return ParseInteger(value).value_or(0);
}

double NumberOf(const JsonValue& value) {
  return std::strtod(value.text.c_str(), nullptr);
}

bool BooleanOf(const JsonValue& value) { return value.text == "true"; }

}  // namespace deltafin
