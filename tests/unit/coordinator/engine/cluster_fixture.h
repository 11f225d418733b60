// tests/unit/coordinator/engine/cluster_fixture.h
//
// An engine whose experts are computed by fake nodes over gRPC.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "coordinator/cluster/static_cluster.h"
#include "coordinator/engine/expert_dispatcher.h"
#include "kernels/kernel_registry.h"
#include "tests/testing/fake_expert_node.h"
#include "tests/unit/coordinator/engine/engine_fixture.h"

namespace deltafin::testing {

enum class Transport : uint8_t { kLoopback, kInProcess };

struct ClusterOptions {
  Transport transport = Transport::kInProcess;
  // Of the node at that index; the rest are well behaved.
  std::vector<FakeNodeOptions> nodes;
  std::optional<uint64_t> random_placement_seed;
  // Changes what is known of the node at that index: what it holds.
  std::function<void(int node, Member*)> describe;
  // Changes the dispatcher's options before it connects.
  std::function<void(DispatcherOptions*)> change;
};

inline ClusterOptions OnLoopback() {
  ClusterOptions options;
  options.transport = Transport::kLoopback;
  return options;
}

class Cluster {
 public:
  explicit Cluster(int num_nodes, ClusterOptions options = {}) {
    shape_ = spine.spec().expert_shape();
    dispatch_.latent_size = shape_.latent_size;
    placement_.num_slices = shape_.num_slices();
    dispatch_.exchange.owner_patience = absl::Milliseconds(200);
    dispatch_.kernel = &BestKernel().elementwise;
    dispatch_.identity = {"digest", "test"};
    options.nodes.resize(num_nodes);
    for (int i = 0; i < num_nodes; ++i) {
      options.nodes[i].shape = shape_;
      AddNode(options.nodes[i], options.transport);
      if (options.describe) options.describe(i, &members_.back());
    }
    if (options.random_placement_seed) {
      placement_.cut = CutKind::kRandom;
      placement_.seed = *options.random_placement_seed;
    }
    if (options.change) options.change(&dispatch_);
  }

  absl::Status Connect() {
    view = std::make_unique<StaticCluster>(placement_, members_);
    dispatcher = std::make_unique<ExpertDispatcher>(dispatch_, *view);
    if (absl::Status status = dispatcher->ConnectAll(); !status.ok()) {
      return status;
    }
    forward = std::make_unique<ForwardPass>(spine, *dispatcher);
    scheduler = std::make_unique<Scheduler>(SchedulerOptions(), *forward);
    return scheduler->Start();
  }

  // Runs one request to its end. Connects first where that was not done.
  RequestResult Run(const GenerationRequest& request,
                    std::vector<int32_t>* ids = nullptr) {
    if (scheduler == nullptr) CHECK_OK(Connect());
    TokenRecorder recorder;
    CHECK_OK(scheduler->Submit(request, &recorder).status());
    RequestResult result = recorder.AwaitFinish();
    if (ids != nullptr) *ids = recorder.ids();
    return result;
  }

  FakeSpine spine;
  std::vector<std::unique_ptr<FakeExpertNode>> nodes;
  std::unique_ptr<StaticCluster> view;
  std::unique_ptr<ExpertDispatcher> dispatcher;
  std::unique_ptr<ForwardPass> forward;
  std::unique_ptr<Scheduler> scheduler;

 private:
  void AddNode(const FakeNodeOptions& options, Transport transport) {
    nodes.push_back(std::make_unique<FakeExpertNode>(options));
    FakeExpertNode& node = *nodes.back();
    Member member;
    member.name = "node-" + std::to_string(nodes.size() - 1);
    member.channel = transport == Transport::kInProcess
                         ? node.InProcessChannel()
                         : MakeExpertChannel(node.address());
    members_.push_back(std::move(member));
  }

  ExpertShape shape_;
  DispatcherOptions dispatch_;
  PlacementOptions placement_;
  std::vector<Member> members_;
};

}  // namespace deltafin::testing
