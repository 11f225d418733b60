#include "coordinator/node_counting.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "common/base/log.h"
#include "proto/expert.grpc.pb.h"

namespace deltafin {
namespace {

constexpr std::chrono::seconds kAskTimeout{5};

std::vector<NodeReport> Ask(const NodeRegistry& registry) {
  std::vector<NodeReport> reports;
  for (const ConnectedMember& member : registry.members_in_service()) {
    NodeReport report;
    report.address = member.name;
    report.identity = member.identity;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAskTimeout);
    const grpc::Status status =
        v1::ExpertService::NewStub(member.channel)
            ->GetCounters(&context, {}, &report.counters);
    if (status.ok()) {
      reports.push_back(std::move(report));
    } else {
      spdlog::warn("node {} does not tell its counters: {}", member.name,
                   status.error_message());
    }
  }
  return reports;
}

}  // namespace

NodeCounting::NodeCounting(const NodeRegistry& registry)
    : registry_(registry), before_(Ask(registry)) {}

std::vector<NodeReport> NodeCounting::Reports() const {
  return CountersSince(before_, Ask(registry_));
}

}  // namespace deltafin
