// coordinator/engine/token_constraint.h
//
// Which tokens may come next in one sequence, as a grammar or a schema says.
// The engine asks before it draws and tells what it drew.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace deltafin {

// Thread-compatible: of one request, used by the engine thread alone from
// Submit on. It holds up every request's step, so both calls must be quick and
// never block.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Bit i of word i / 64: token i may come next; words for the whole
  // vocabulary, bits beyond it are ignored. The same until Accept; valid until
  // then. Errors end the request: INTERNAL when nothing may come.
  virtual absl::StatusOr<std::span<const uint64_t>> Allowed() = 0;
  // `id` was drawn, in the order of the sequence; it was allowed.
  virtual void Accept(int32_t id) = 0;
};

}  // namespace deltafin
