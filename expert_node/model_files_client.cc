#include "expert_node/model_files_client.h"

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <system_error>

#include "absl/time/clock.h"
#include "common/base/file_io.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"
#include "common/net/grpc_status.h"
#include "common/net/keepalive.h"
#include "proto/cluster.grpc.pb.h"

namespace deltafin {
namespace {

// One attempt to connect may take this long; gRPC takes the time from the
// argument named MIN_RECONNECT_BACKOFF.
constexpr int kConnectAttemptMs = 10'000;

absl::Status MakeFolders(const InstalledPaths& paths) {
  std::error_code error;
  std::filesystem::create_directories(paths.header_folder(), error);
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(), "make", paths.header_folder());
}

}  // namespace

absl::Status FetchModelFiles(const ModelFilesOptions& options) {
  RETURN_IF_ERROR(MakeFolders(InstalledPaths(options.folder)));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectAttemptMs);
  const Keepalive keepalive = KeepaliveWithin(kDefaultKeepaliveBound);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(keepalive.time)));
  arguments.SetInt(
      GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(keepalive.timeout)));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const auto stub = v1::ClusterService::NewStub(
      options.credentials.Connect(options.coordinator, arguments));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
  v1::GetModelFilesRequest request;
  request.set_with_shards(options.with_shards);
  const auto reader = stub->GetModelFiles(&context, request);
  ModelFilesReceiver receiver(options.folder, options.with_shards);
  v1::ModelFilePiece piece;
  absl::Status taken;
  while (taken.ok() && !receiver.is_complete() && reader->Read(&piece)) {
    taken = receiver.Take(piece);
  }
  if (!taken.ok() || receiver.is_complete()) context.TryCancel();
  const absl::Status ended = ExplainConnection(FromGrpc(reader->Finish()));
  RETURN_IF_ERROR(taken);
  if (!receiver.is_complete()) RETURN_IF_ERROR(ended);
  return receiver.Finish();
}

}  // namespace deltafin
