// expert_node/storage/released_identity.h
//
// Identity of an expert: SHA-256 over its six released tensors in the released
// order, w1 packed and scale, w2, w3. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/expert_tiles.h"

namespace deltafin {

// Lower-case hex.
std::string IdentityOfReleased(const ExpertShape& shape,
                               const ReleasedExpert& released);

// Of the same expert as a whole record in tile order. Takes as much memory as
// the record. REQUIRES: record.size() >= shape.payload_bytes().
std::string IdentityOfRecord(const ExpertShape& shape,
                             std::span<const uint8_t> record);

}  // namespace deltafin
