// tests/testing/synthetic_config.h
//
// Specifications of generated models and their config.json. Pure functions.
#pragma once

#include <string>

#include "common/base/model_spec.h"

namespace deltafin {

// Dimensions of tests/golden/tiny-a: hidden 64, latent 32, expert width 64, 640
// ids. Every fourth layer and the last are MLA, layer 0 is dense.
// REQUIRES: num_layers >= 1, num_experts >= 4.
ModelSpec TinySpec(int num_layers, int num_experts);

// Kimi K3's own dimensions (hidden 7168, latent 3584, expert width 3072, 96
// heads), but 4,096 ids and as many layers and experts as asked for.
// REQUIRES: num_layers >= 1, num_experts >= 16.
ModelSpec FullWidthSpec(int num_layers, int num_experts);

// A config.json that ModelSpec::Parse reads back as `spec`.
std::string ConfigJson(const ModelSpec& spec);

}  // namespace deltafin
