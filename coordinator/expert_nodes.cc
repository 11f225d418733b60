#include "coordinator/expert_nodes.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "coordinator/engine/expert_client.h"
#include "expert_node/expert_node.h"
#include "proto/expert.grpc.pb.h"

namespace deltafin {
namespace {

constexpr std::chrono::seconds kAskTimeout{5};
constexpr absl::Duration kDrain = absl::Seconds(5);

absl::StatusOr<NodeReport> AskNode(const Member& node) {
  NodeReport report;
  report.address = node.name;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAskTimeout);
  const grpc::Status status = v1::ExpertService::NewStub(node.channel)
                                  ->GetCounters(&context, {}, &report.counters);
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("node ", node.name,
                     " does not tell its counters: ", status.error_message()));
  }
  return report;
}

}  // namespace

ExpertNodes::ExpertNodes() = default;

ExpertNodes::~ExpertNodes() {
  if (own_node_ != nullptr) own_node_->Shutdown(kDrain);
}

std::unique_ptr<ExpertNodes> ExpertNodes::Remote(
    const std::vector<std::string>& addresses) {
  std::unique_ptr<ExpertNodes> nodes(new ExpertNodes());
  for (const std::string& address : addresses) {
    Member member;
    member.name = address;
    member.channel = MakeExpertChannel(address);
    nodes->members_.push_back(std::move(member));
  }
  return nodes;
}

absl::StatusOr<std::unique_ptr<ExpertNodes>> ExpertNodes::InProcess(
    const OwnNodeOptions& options) {
  ExpertNodeOptions node;
  node.model_dir = options.model_dir;
  node.manifest_digest = options.manifest_digest;
  node.ram_bytes = options.tier_bytes;
  node.num_threads = options.num_threads;
  node.kernel = options.kernel;
  std::unique_ptr<ExpertNodes> nodes(new ExpertNodes());
  ASSIGN_OR_RETURN(nodes->own_node_, ExpertNode::Create(node));
  RETURN_IF_ERROR(nodes->own_node_->Start());
  Member member;
  member.name = "in-process";
  member.channel = nodes->own_node_->InProcessChannel();
  nodes->members_.push_back(std::move(member));
  return nodes;
}

absl::Status ExpertNodes::StartCounting() {
  before_.clear();
  for (const Member& node : members_) {
    ASSIGN_OR_RETURN(NodeReport report, AskNode(node));
    before_.push_back(std::move(report));
  }
  return absl::OkStatus();
}

std::vector<NodeReport> ExpertNodes::Counters() const {
  std::vector<NodeReport> now;
  for (const Member& node : members_) {
    absl::StatusOr<NodeReport> report = AskNode(node);
    if (!report.ok()) {
      spdlog::warn("{}", std::string(report.status().message()));
      report = NodeReport{};
      report->address = node.name;
      report->reachable = false;
    }
    now.push_back(*std::move(report));
  }
  return CountersSince(before_, std::move(now));
}

}  // namespace deltafin
