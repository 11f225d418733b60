#include "common/net/grpc_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <mutex>
#include <string>

#include "absl/time/clock.h"
#include "common/base/log.h"

namespace deltafin {
namespace {

// But of a peer that was refused no status tells.
void LogForGrpc(gpr_log_func_args* args) {
  const std::string refused = GrpcPeers().LineFor(args->message, absl::Now());
  if (!refused.empty()) spdlog::warn("{}", refused);
  spdlog::debug("grpc: {}", args->message);
}

// libprotobuf's complaint about foreign bytes.
void LogForProtobuf(google::protobuf::LogLevel /*level*/, const char* /*file*/,
                    int /*line*/, const std::string& message) {
  spdlog::debug("protobuf: {}", message);
}

}  // namespace

RefusedPeers& GrpcPeers() {
  static auto* const peers = new RefusedPeers();
  return *peers;
}

void TakeGrpcLog() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(LogForGrpc);
    google::protobuf::SetLogHandler(LogForProtobuf);
  });
}

}  // namespace deltafin
