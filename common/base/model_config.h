// common/base/model_config.h
//
// Typed, range-checked access to config.json, and the fields of the K3 family
// that may not differ. Immutable; used by ModelSpec.
//
// Fields are named by JSON pointers ("/text_config/hidden_size"); messages
// write them with dots. All errors are INVALID_ARGUMENT with field, value and
// what is supported.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin {

class ModelConfig {
 public:
  // Refuses what is no JSON object, duplicate keys and any `rope_*` key.
  static absl::StatusOr<ModelConfig> Parse(std::string_view json);
  ~ModelConfig();
  ModelConfig(ModelConfig&&) noexcept;
  ModelConfig& operator=(ModelConfig&&) noexcept;

  // Model types, activation, router, NoPE, gates, quantisation and the rest of
  // what this program has one form of.
  absl::Status CheckFixedFields() const;

  bool Has(const std::string& path) const;
  // An integer in [min, max], a multiple of multiple_of.
  absl::StatusOr<int64_t> Integer(const std::string& path, int64_t min,
                                  int64_t max, int64_t multiple_of) const;
  // A list of integers, each in [min, max].
  absl::StatusOr<std::vector<int64_t>> Integers(const std::string& path,
                                                int64_t min, int64_t max) const;
  // A number in [min, max].
  absl::StatusOr<float> Number(const std::string& path, double min,
                               double max) const;

 private:
  ModelConfig();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin
