#include "tests/testing/mini_cluster.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <chrono>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "proto/expert.grpc.pb.h"

namespace deltafin::testing {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);
constexpr std::string_view kMark = "listening on ";

// HOST:PORT of the first whole "listening on HOST:PORT" line.
std::optional<std::string> AddressIn(std::string_view text) {
  const size_t mark = text.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  text.remove_prefix(mark + kMark.size());
  const size_t end = text.find_first_of(" \n");
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(text.substr(0, end));
}

std::vector<std::string> NodeCommand(const MiniClusterOptions& options,
                                     int index) {
  std::vector<std::string> command{
      DeltafinNodeBinary(), "--model",
      options.model_dir.empty() ? NanoModelDir() : options.model_dir,
      "--listen", "127.0.0.1:0"};
  command.insert(command.end(), options.flags.begin(), options.flags.end());
  if (index < static_cast<int>(options.flags_of_node.size())) {
    const std::vector<std::string>& own = options.flags_of_node[index];
    command.insert(command.end(), own.begin(), own.end());
  }
  return command;
}

}  // namespace

absl::StatusOr<std::string> WaitForAddress(Process& process) {
  std::optional<std::string> address;
  RETURN_IF_ERROR(process.WaitForOutput(
      [&address](std::string_view out, std::string_view err) {
        address = AddressIn(out);
        if (!address.has_value()) address = AddressIn(err);
        return address.has_value();
      },
      kStartTimeout));
  return *address;
}

absl::StatusOr<std::unique_ptr<MiniCluster>> MiniCluster::Start(
    const MiniClusterOptions& options) {
  auto cluster = std::make_unique<MiniCluster>();
  for (int i = 0; i < options.num_nodes; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Process> process,
                     Process::Start(NodeCommand(options, i)));
    cluster->nodes_.push_back({std::move(process), ""});
  }
  for (Node& node : cluster->nodes_) {
    ASSIGN_OR_RETURN(node.address, WaitForAddress(*node.process));
  }
  return cluster;
}

std::string MiniCluster::addresses() const {
  return absl::StrJoin(nodes_, ",", [](std::string* out, const Node& node) {
    absl::StrAppend(out, node.address);
  });
}

absl::StatusOr<v1::NodeCounters> MiniCluster::Counters(int index) const {
  const std::unique_ptr<v1::ExpertService::Stub> stub =
      v1::ExpertService::NewStub(grpc::CreateChannel(
          address(index), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(5));
  v1::NodeCounters counters;
  const grpc::Status status = stub->GetCounters(&context, {}, &counters);
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("node ", address(index), ": ", status.error_message()));
  }
  return counters;
}

absl::StatusOr<std::vector<v1::NodeCounters>> MiniCluster::AllCounters() const {
  std::vector<v1::NodeCounters> all;
  for (int i = 0; i < num_nodes(); ++i) {
    ASSIGN_OR_RETURN(v1::NodeCounters counters, Counters(i));
    all.push_back(std::move(counters));
  }
  return all;
}

void MiniCluster::Kill(int index) { node(index).Signal(SIGKILL); }
void MiniCluster::Pause(int index) { node(index).Signal(SIGSTOP); }
void MiniCluster::Resume(int index) { node(index).Signal(SIGCONT); }

}  // namespace deltafin::testing
