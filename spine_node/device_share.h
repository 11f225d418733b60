// spine_node/device_share.h
//
// How many of a spine's layers a device holds in so many bytes. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/model_spec.h"
#include "spine_node/options.h"

namespace deltafin {

// How a device keeps the values of matrices: as the CPU spine does (bf16 or
// int8), or as f32 where libtorch alone computes.
enum class DeviceValues : uint8_t { kPacked, kFloat };

struct DeviceDemand {
  SpinePrecision precision = SpinePrecision::kBf16;
  DeviceValues values = DeviceValues::kPacked;
  int max_sequences = 1;
  int64_t context_tokens = 0;
};

struct DeviceShare {
  int num_layers = 0;     // the first ones
  bool has_head = false;  // of all layers: the head, too
  uint64_t weight_bytes = 0;
  uint64_t bytes = 0;  // with the sequences' states
};

// The most that `limit` bytes hold, all without a limit. The head goes to the
// device only with all layers.
DeviceShare ChooseDeviceShare(const ModelSpec& spec, const DeviceDemand& demand,
                              std::optional<uint64_t> limit);

}  // namespace deltafin
