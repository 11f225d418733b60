#include "expert_node/storage/released_identity.h"

#include <vector>

#include "common/base/digest.h"

namespace deltafin {

std::string IdentityOfReleased(const ExpertShape& shape,
                               const ReleasedExpert& released) {
  const size_t values = size_t(shape.latent_size) * shape.intermediate_size;
  const size_t packed = values / 2;
  const size_t scales = values / kMxfp4Group;
  Sha256 sha;
  sha.Update({released.gate_packed, packed});
  sha.Update({released.gate_scale, scales});
  sha.Update({released.down_packed, packed});
  sha.Update({released.down_scale, scales});
  sha.Update({released.up_packed, packed});
  sha.Update({released.up_scale, scales});
  return sha.FinishHex();
}

std::string IdentityOfRecord(const ExpertShape& shape,
                             std::span<const uint8_t> record) {
  const size_t values = size_t(shape.latent_size) * shape.intermediate_size;
  const size_t packed = values / 2;
  const size_t scales = values / kMxfp4Group;
  std::vector<uint8_t> bytes(shape.payload_bytes());
  uint8_t* const gate = bytes.data();
  uint8_t* const down = gate + packed + scales;
  uint8_t* const up = down + packed + scales;
  UnpackRecord(shape, record.data(),
               {gate, gate + packed, up, up + packed, down, down + packed});
  return Sha256Hex(bytes);
}

}  // namespace deltafin
