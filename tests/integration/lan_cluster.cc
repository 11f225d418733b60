#include "tests/integration/lan_cluster.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/net/grpc_status.h"
#include "common/net/listen_address.h"
#include "proto/expert.grpc.pb.h"
#include "tests/testing/http_get.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(40);
// Longer than a layer takes, shorter than the patience with a silent node.
constexpr absl::Duration kStandstill = absl::Milliseconds(500);
constexpr std::chrono::seconds kAskTimeout{10};
constexpr int kServerPort = 8500;

absl::StatusOr<int64_t> AskLayerRequests(
    const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::ExpertService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAskTimeout);
  v1::NodeCounters counters;
  RETURN_IF_ERROR(FromGrpc(stub->GetCounters(&context, {}, &counters)));
  return static_cast<int64_t>(counters.layer_requests());
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanCluster>> LanCluster::Start(
    LanProfile profile, int num_nodes, const Words& node_flags,
    LanMembers members) {
  auto cluster = std::make_unique<LanCluster>();
  RETURN_IF_ERROR(cluster->MakeToken());
  ASSIGN_OR_RETURN(cluster->box_, LanBox::Create(profile, num_nodes + 1));
  cluster->members_ = members;
  cluster->node_flags_.assign(num_nodes, node_flags);
  cluster->nodes_.resize(num_nodes);
  // Sharing nodes would only wait for the server.
  if (members == LanMembers::kSharing) return cluster;
  for (int i = 0; i < num_nodes; ++i) RETURN_IF_ERROR(cluster->StartNode(i));
  for (int i = 0; i < num_nodes; ++i) {
    RETURN_IF_ERROR(WaitForAddress(cluster->node(i)).status());
  }
  return cluster;
}

absl::Status LanCluster::MakeToken() {
  token_file_ = dir_.File("token");
  const ProcessResult made =
      RunDeltafin({"certs", "token", token_file_}, absl::Minutes(1));
  if (made.exit_code != 0) return absl::InternalError(made.err);
  CredentialFiles files;
  files.cluster_token_file = token_file_;
  ASSIGN_OR_RETURN(credentials_, Credentials::Load(files, absl::Now()));
  return absl::OkStatus();
}

absl::Status LanCluster::StartNode(int index) {
  Words command = Join({DeltafinNodeBinary(), "--listen", address(index),
                        "--threads", "1", "--test-kernel-rate", "4"},
                       Join(token_flags(), node_flags_[index]));
  if (members_ != LanMembers::kSharing) {
    command = Join(command, {"--model", NanoModelDir()});
  }
  if (members_ != LanMembers::kNamed) {
    command = Join(command,
                   {"--join", server_address(), "--data", DataFolderOf(index)});
  }
  ASSIGN_OR_RETURN(nodes_[index], box_->Start(index + 1, command));
  return absl::OkStatus();
}

std::string LanCluster::server_address() const {
  return absl::StrCat(box_->host(0), ":", kServerPort);
}

std::string LanCluster::DataFolderOf(int index) const {
  return dir_.File(absl::StrCat("node-", index));
}

absl::StatusOr<std::unique_ptr<Process>> LanCluster::StartServer(
    const Words& flags, const ProcessOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Process> server,
                   box_->Start(0,
                               Join({DeltafinBinary(), "serve", "--cluster",
                                     "--state", dir_.File("state"), "--listen",
                                     server_address(), "--threads", "1"},
                                    Join(flags, token_flags())),
                               options));
  RETURN_IF_ERROR(WaitForAddress(*server).status());
  for (int i = 0; i < num_nodes(); ++i) {
    if (nodes_[i] == nullptr) RETURN_IF_ERROR(StartNode(i));
  }
  return server;
}

absl::Status LanCluster::Restart(int index) {
  RETURN_IF_ERROR(nodes_[index]->Wait(absl::Seconds(30)).status());
  RETURN_IF_ERROR(StartNode(index));
  return WaitForAddress(node(index)).status();
}

std::string LanCluster::address(int index) const {
  return absl::StrCat(box_->host(index + 1), ":", port(index));
}

std::string LanCluster::addresses(int count) const {
  std::vector<std::string> all;
  for (int i = 0; i < (count < 0 ? num_nodes() : count); ++i) {
    all.push_back(address(i));
  }
  return absl::StrJoin(all, ",");
}

absl::StatusOr<std::unique_ptr<Process>> LanCluster::StartDeltafin(
    const Words& words, int num_nodes) {
  return box_->Start(
      0, Join(Join({DeltafinBinary()}, words),
              Join({"--nodes", addresses(num_nodes)}, token_flags())));
}

absl::StatusOr<LanCluster::Line> LanCluster::Call(int place,
                                                  const std::string& host,
                                                  int port) const {
  ASSIGN_OR_RETURN(const int fd, box_->space(place).Connect(host, port));
  Line line;
  ASSIGN_OR_RETURN(line.bridge, ByteBridge::Create(fd));
  line.channel =
      credentials_.Connect(line.bridge->address(), grpc::ChannelArguments());
  return line;
}

absl::StatusOr<LanCluster::Line> LanCluster::CallServer() const {
  return Call(0, box_->host(0), kServerPort);
}

absl::StatusOr<LanCluster::Line> LanCluster::CallNode(int index) const {
  return Call(index + 1, box_->host(index + 1), port(index));
}

absl::StatusOr<std::string> LanCluster::Get(int place, int port,
                                            const std::string& path) const {
  ASSIGN_OR_RETURN(const int fd, box_->space(place).Connect("127.0.0.1", port));
  ASSIGN_OR_RETURN(const auto bridge, ByteBridge::Create(fd));
  ASSIGN_OR_RETURN(const ListenAddress address,
                   ListenAddress::Parse(bridge->address()));
  return HttpGet(address.port, path);
}

absl::StatusOr<int64_t> LanCluster::LayerRequests(int index) {
  ASSIGN_OR_RETURN(const Line line, CallNode(index));
  return AskLayerRequests(line.channel);
}

absl::Status LanCluster::WaitForLayerRequests(int index, int64_t count) {
  ASSIGN_OR_RETURN(const Line line, CallNode(index));
  const absl::Time deadline = absl::Now() + kPatience;
  int64_t seen = 0;
  while (absl::Now() < deadline) {
    ASSIGN_OR_RETURN(seen, AskLayerRequests(line.channel));
    if (seen >= count) return absl::OkStatus();
    absl::SleepFor(absl::Milliseconds(1));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "node ", index, ": ", seen, " layer requests, waited for ", count));
}

absl::Status LanCluster::WaitForStandstill(int index) {
  ASSIGN_OR_RETURN(const Line line, CallNode(index));
  const absl::Time deadline = absl::Now() + kPatience;
  ASSIGN_OR_RETURN(int64_t last, AskLayerRequests(line.channel));
  absl::Time since = absl::Now();
  while (absl::Now() < deadline) {
    if (absl::Now() - since >= kStandstill) return absl::OkStatus();
    absl::SleepFor(absl::Milliseconds(10));
    ASSIGN_OR_RETURN(const int64_t seen, AskLayerRequests(line.channel));
    if (seen != last) since = absl::Now();
    last = seen;
  }
  return absl::DeadlineExceededError(
      absl::StrCat("node ", index, ": still at work, ", last, " requests"));
}

}  // namespace deltafin::testing
