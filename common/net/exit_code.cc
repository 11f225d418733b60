#include "common/net/exit_code.h"

#include <csignal>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace deltafin {
namespace {

constexpr char kExitCodePayload[] = "deltafin/exit-code";

std::string SignalName(int signal) {
  switch (signal) {
    case SIGINT:
      return "Ctrl-C";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      return absl::StrCat("signal ", signal);
  }
}

}  // namespace

absl::Status UsageError(std::string_view message) {
  return WithExitCode(absl::InvalidArgumentError(
                          absl::string_view(message.data(), message.size())),
                      kExitUsage);
}

absl::Status InterruptedError(int signal) {
  return WithExitCode(
      absl::CancelledError(absl::StrCat("interrupted by ", SignalName(signal))),
      kExitOfSignal + signal);
}

absl::Status WithExitCode(absl::Status status, int exit_code) {
  status.SetPayload(kExitCodePayload, absl::Cord(absl::StrCat(exit_code)));
  return status;
}

int ExitCodeOf(const absl::Status& status) {
  int exit_code = 0;
  const auto payload = status.GetPayload(kExitCodePayload);
  if (payload.has_value() &&
      absl::SimpleAtoi(std::string(*payload), &exit_code)) {
    return exit_code;
  }
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDataLoss:
      return kExitBadInput;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
      return kExitUnavailable;
    default:
      return kExitFailed;
  }
}

}  // namespace deltafin
