// coordinator/frontend/openai_object.h
//
// Reads one object inside a request, member by member, and knows in the end
// which were not asked for. Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/frontend/openai_fields.h"
#include "coordinator/frontend/python_json.h"

namespace deltafin {

class ObjectReader {
 public:
  // `value` must outlive this; `path` names it in errors. Errors of all:
  // INVALID_ARGUMENT by FieldError.
  static absl::StatusOr<ObjectReader> Open(const JsonValue& value,
                                           std::string path);

  // The member, or null where it is absent or null.
  const JsonValue* Find(std::string_view name);
  absl::StatusOr<const JsonValue*> Require(std::string_view name,
                                           FieldType type);
  // Leave `out` as it is where the member is absent or null.
  absl::Status ReadString(std::string_view name, std::string& out);
  absl::Status ReadBoolean(std::string_view name, bool& out);
  absl::Status RequireString(std::string_view name, std::string& out);
  // The member, if there, must be null or empty: what answers hold besides
  // what the model reads.
  absl::Status RequireEmpty(std::string_view name);

  // A member that was never asked for is an error.
  absl::Status RefuseOthers() const;

  std::string PathOf(std::string_view name) const;

 private:
  ObjectReader(const JsonValue& object, std::string path)
      : object_(&object), path_(std::move(path)) {}

  const JsonValue* object_;
  std::string path_;
  std::vector<std::string_view> known_;
};

}  // namespace deltafin
