// coordinator/frontend/openai_fields.h
//
// The members of a request's JSON object, as tables: what each is called, what
// it may hold, where it goes. So no member is read without being checked, and
// none is ignored. Thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/frontend/python_json.h"

namespace deltafin {

struct OpenAiRequest;

enum class FieldType : uint8_t {
  kBoolean,
  kInteger,
  kNumber,
  kString,
  kArray,
  kObject,
  kAny,  // `read` checks
};

// As OpenAI's schema has it: null says the same as leaving it out.
enum class NullMeans : uint8_t { kAbsent, kError };

struct OpenAiField {
  std::string_view name;
  FieldType type = FieldType::kAny;
  NullMeans null_means = NullMeans::kError;
  // Takes a value that was checked. Errors: INVALID_ARGUMENT by FieldError.
  // Null: the field has no effect here, so every value but an absent one is an
  // error.
  absl::Status (*read)(const JsonValue& value,
                       OpenAiRequest& request) = nullptr;
  double least = 0;  // kInteger, kNumber
  double most = 0;
};

using OpenAiFields = std::span<const OpenAiField>;

// Reads every member of `object` by the table that has it. Errors:
// INVALID_ARGUMENT naming the member that no table has, or whose value is none
// that its table allows.
absl::Status ReadFields(std::initializer_list<OpenAiFields> tables,
                        const JsonValue& object, OpenAiRequest& request);

// Errors: INVALID_ARGUMENT naming `path` and what it must be.
absl::Status RequireType(const JsonValue& value, FieldType type,
                         std::string_view path);

// REQUIRES: a kInteger that was checked.
int64_t IntegerOf(const JsonValue& value);
// REQUIRES: kNumber.
double NumberOf(const JsonValue& value);
// REQUIRES: kBoolean.
bool BooleanOf(const JsonValue& value);

}  // namespace deltafin
