#include "coordinator/frontend/openai_object.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "coordinator/frontend/openai_error.h"

namespace deltafin {

absl::StatusOr<ObjectReader> ObjectReader::Open(const JsonValue& value,
                                                std::string path) {
  RETURN_IF_ERROR(RequireType(value, FieldType::kObject, path));
  return ObjectReader(value, std::move(path));
}

std::string ObjectReader::PathOf(std::string_view name) const {
  std::string path = path_;
  if (!path.empty()) path += '.';
  return path.append(name);
}

const JsonValue* ObjectReader::Find(std::string_view name) {
  known_.push_back(name);
  const JsonValue* value = object_->Find(name);
  const bool is_there =
      value != nullptr && value->kind != JsonValue::Kind::kNull;
  return is_there ? value : nullptr;
}

absl::StatusOr<const JsonValue*> ObjectReader::Require(std::string_view name,
                                                       FieldType type) {
  const JsonValue* value = Find(name);
  if (value == nullptr) {
    return FieldError(PathOf(name), "missing", "missing_required_parameter");
  }
  RETURN_IF_ERROR(RequireType(*value, type, PathOf(name)));
  return value;
}

absl::Status ObjectReader::ReadString(std::string_view name, std::string& out) {
  if (const JsonValue* value = Find(name); value != nullptr) {
    RETURN_IF_ERROR(RequireType(*value, FieldType::kString, PathOf(name)));
    out = value->text;
  }
  return absl::OkStatus();
}

absl::Status ObjectReader::ReadBoolean(std::string_view name, bool& out) {
  if (const JsonValue* value = Find(name); value != nullptr) {
    RETURN_IF_ERROR(RequireType(*value, FieldType::kBoolean, PathOf(name)));
    out = BooleanOf(*value);
  }
  return absl::OkStatus();
}

absl::Status ObjectReader::RequireString(std::string_view name,
                                         std::string& out) {
  ASSIGN_OR_RETURN(const JsonValue* value, Require(name, FieldType::kString));
  out = value->text;
  return absl::OkStatus();
}

absl::Status ObjectReader::RequireEmpty(std::string_view name) {
  const JsonValue* value = Find(name);
  if (value == nullptr) return absl::OkStatus();
  const bool may_be_empty = value->kind == JsonValue::Kind::kString ||
                            value->kind == JsonValue::Kind::kArray;
  if (may_be_empty && value->text.empty() && value->items.empty()) {
    return absl::OkStatus();
  }
  return NotSupported(PathOf(name), "has no effect here; leave it out");
}

absl::Status ObjectReader::RefuseOthers() const {
  for (const JsonMember& member : object_->members) {
    if (std::find(known_.begin(), known_.end(), member.key) == known_.end()) {
      return FieldError(PathOf(member.key), "no field of this object",
                        "unknown_parameter");
    }
  }
  return absl::OkStatus();
}

}  // namespace deltafin
