// tests/unit/coordinator/frontend/schema_validator.h
//
// Whether a value satisfies a JSON schema, written from the specification and
// not from our grammar; of the keywords that we enforce. oneOf is anyOf.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace deltafin {

class SchemaValidator {
 public:
  using Json = nlohmann::json;

  explicit SchemaValidator(const Json& root) : root_(root) {}

  bool Holds(const Json& value) const { return Holds(root_, value); }

 private:
  static size_t Characters(const std::string& utf8) {
    size_t count = 0;
    for (const char c : utf8) count += (c & 0xC0) != 0x80 ? 1 : 0;
    return count;
  }

  static bool HasType(const std::string& type, const Json& value) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "string") return value.is_string();
    if (type == "object") return value.is_object();
    return type == "array" && value.is_array();
  }

  static bool TypeHolds(const Json& type, const Json& value) {
    if (type.is_string()) return HasType(type, value);
    for (const Json& one : type) {
      if (HasType(one, value)) return true;
    }
    return false;
  }

  bool ObjectHolds(const Json& schema, const Json& value) const {
    for (const Json& name : schema.value("required", Json::array())) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [key, member] : value.items()) {
      if (properties.contains(key)) {
        if (!Holds(properties[key], member)) return false;
      } else if (!Holds(schema.value("additionalProperties", Json(true)),
                        member)) {
        return false;
      }
    }
    return true;
  }

  bool ArrayHolds(const Json& schema, const Json& value) const {
    if (value.size() < schema.value("minItems", size_t{0})) return false;
    if (value.size() > schema.value("maxItems", SIZE_MAX)) return false;
    const Json prefix = schema.value("prefixItems", Json::array());
    for (size_t i = 0; i < value.size(); ++i) {
      const Json item =
          i < prefix.size() ? prefix[i] : schema.value("items", Json(true));
      if (!Holds(item, value[i])) return false;
    }
    return true;
  }

  static bool NumberHolds(const Json& schema, double value) {
    if (schema.contains("minimum") && value < schema["minimum"]) return false;
    if (schema.contains("maximum") && value > schema["maximum"]) return false;
    if (schema.contains("exclusiveMinimum") &&
        value <= schema["exclusiveMinimum"]) {
      return false;
    }
    return !schema.contains("exclusiveMaximum") ||
           value < schema["exclusiveMaximum"];
  }

  bool AnyHolds(const Json& schemas, const Json& value) const {
    for (const Json& schema : schemas) {
      if (Holds(schema, value)) return true;
    }
    return false;
  }

  bool Holds(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.contains("$ref")) {
      const std::string ref = schema["$ref"];
      return Holds(root_.at(Json::json_pointer(ref.substr(1))), value);
    }
    for (const char* any : {"anyOf", "oneOf"}) {
      if (schema.contains(any) && !AnyHolds(schema[any], value)) return false;
    }
    for (const Json& part : schema.value("allOf", Json::array())) {
      if (!Holds(part, value)) return false;
    }
    if (schema.contains("const") && value != schema["const"]) return false;
    if (schema.contains("enum")) {
      bool is_one = false;
      for (const Json& one : schema["enum"]) is_one |= one == value;
      if (!is_one) return false;
    }
    if (schema.contains("type") && !TypeHolds(schema["type"], value)) {
      return false;
    }
    if (value.is_object()) return ObjectHolds(schema, value);
    if (value.is_array()) return ArrayHolds(schema, value);
    if (value.is_number()) return NumberHolds(schema, value);
    if (!value.is_string()) return true;
    const size_t length = Characters(value);
    return length >= schema.value("minLength", size_t{0}) &&
           length <= schema.value("maxLength", SIZE_MAX);
  }

  const Json root_;
};

}  // namespace deltafin
