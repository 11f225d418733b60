// expert_node/exit_code.h
//
// How deltafin-node ends (docs/configuration.md).
#pragma once

#include "absl/status/status.h"

namespace deltafin {

enum NodeExitCode : int {
  kNodeOk = 0,
  kNodeFailed = 1,
  kNodeUsage = 64,        // flags that are unknown, malformed or contradict
  kNodeBadInput = 65,     // model or configuration that cannot be used
  kNodeUnavailable = 69,  // port or memory that is not there
};

// For what happens after the flags were understood.
inline NodeExitCode NodeExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kNodeOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDataLoss:
      return kNodeBadInput;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
      return kNodeUnavailable;
    default:
      return kNodeFailed;
  }
}

}  // namespace deltafin
