// tests/testing/synthetic_values.h
//
// Weights of generated models: a pure function of (seed, tensor), made from
// integer draws and single-rounding operations, so that every machine makes the
// same bytes. Scaled so that activations stay near one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "common/base/model_spec.h"
#include "common/base/tensor_names.h"

namespace deltafin {

// Passes the tensor's bytes to `append`, in order, in pieces of at most 1 MiB.
// Stops at the first error.
absl::Status StreamSyntheticTensor(
    const ModelSpec& spec, const TensorSpec& tensor, uint64_t seed,
    const std::function<absl::Status(std::span<const uint8_t>)>& append);

}  // namespace deltafin
