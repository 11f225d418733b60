#include "coordinator/cli/exit_code.h"

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace deltafin {
namespace {

constexpr char kUsagePayload[] = "deltafin/usage";
constexpr char kInterruptedPayload[] = "deltafin/interrupted";

bool HasPayload(const absl::Status& status, const char* type) {
  return status.GetPayload(type).has_value();
}

}  // namespace

absl::Status UsageError(std::string_view message) {
  absl::Status status = absl::InvalidArgumentError(
      absl::string_view(message.data(), message.size()));
  status.SetPayload(kUsagePayload, absl::Cord());
  return status;
}

absl::Status InterruptedError() {
  absl::Status status = absl::CancelledError("interrupted");
  status.SetPayload(kInterruptedPayload, absl::Cord());
  return status;
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (HasPayload(status, kUsagePayload)) return kExitUsage;
  if (HasPayload(status, kInterruptedPayload)) return kExitInterrupted;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDataLoss:
      return kExitBadInput;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
      return kExitUnavailable;
    default:
      return kExitFailed;
  }
}

}  // namespace deltafin
