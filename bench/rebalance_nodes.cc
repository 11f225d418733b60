#include "bench/rebalance_nodes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <new>
#include <utility>

#include "absl/time/clock.h"
#include "bench/repeated_store.h"
#include "bench/scaling_nodes.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/net/server_lifecycle.h"
#include "coordinator/cluster/cluster_service.h"
#include "coordinator/cluster/registry_ticker.h"
#include "coordinator/engine/expert_client.h"
#include "expert_node/holdings.h"
#include "expert_node/machine_capacity.h"
#include "expert_node/node_membership.h"
#include "expert_node/peer_client.h"
#include "expert_node/share_filler.h"
#include "expert_node/storage/throttled_store.h"

namespace deltafin::bench {
namespace {

// Long: a machine that is busy with other things makes nobody suspect.
constexpr absl::Duration kHeartbeat = absl::Seconds(5);
constexpr absl::Duration kTick = absl::Milliseconds(250);
constexpr absl::Duration kLook = absl::Milliseconds(1);
// What a node that takes may keep on this machine's real drive.
constexpr uint64_t kMostHeldBytes = uint64_t{128} << 20;

RegistryOptions CoordinatorOptions() {
  const ModelSpec spec = FullExperts();
  const ExpertShape shape = spec.expert_shape();
  RegistryOptions options;
  options.placement.num_slices = shape.num_slices();
  options.extent = {
      spec.first_k_dense_replace, spec.num_moe_layers(),
      spec.num_experts,           shape.num_slices(),
      spec.num_experts_per_token, static_cast<int64_t>(shape.slice_offset(1))};
  options.identity = {kScalingDigest, "rebalance_cost"};
  options.limits.heartbeat = kHeartbeat;
  options.limits.gone_after = absl::Minutes(1);
  options.loopback_only = true;
  return options;
}

NodeJoinOptions JoinOptions(const RebalanceSetup& setup,
                            const std::string& name) {
  NodeJoinOptions join;
  join.coordinator = "127.0.0.1:" + std::to_string(setup.coordinator_port);
  join.data_dir = setup.folder + "/" + name;
  join.incarnation = static_cast<uint64_t>(getpid());
  return join;
}

// A node whose layers come from memory at the pace of the drive.
struct BenchNode {
  BenchNode(const RebalanceSetup& setup, const std::string& name)
      : join(JoinOptions(setup, name)),
        drive(std::make_shared<ThrottledDrive>(setup.read_rate)) {
    auto opened = DataFolder::Open(join.data_dir);
    CHECK_OK(opened.status());
    folder = *std::move(opened);
    ExpertNodeOptions options;
    options.node_id = folder->node_id();
    options.manifest_digest = kScalingDigest;
    options.listen = "127.0.0.1:0";
    options.num_threads = setup.threads;
    // Room for what is being read, none to keep.
    options.ram_bytes = 4 * FullExperts().expert_shape().payload_bytes();
    auto made =
        ExpertNode::CreateOver(options, FullExperts(),
                               std::make_unique<ThrottledStore>(
                                   std::make_unique<RepeatedStore>(), drive));
    CHECK_OK(made.status());
    node = *std::move(made);
    CHECK_OK(node->Start());
  }

  const NodeJoinOptions join;
  const std::shared_ptr<ThrottledDrive> drive;
  std::unique_ptr<DataFolder> folder;
  std::unique_ptr<ExpertNode> node;
};

std::unique_ptr<ShareStore> OpenShare(const BenchNode& node,
                                      PeerClient& peers) {
  ShareStoreOptions options;
  options.folder = node.join.data_dir + "/experts";
  options.records.throttle = node.drive.get();
  auto share = ShareStore::Open(RecordModel::Of(FullExperts(), kScalingDigest),
                                options, peers, nullptr);
  CHECK_OK(share.status());
  return *std::move(share);
}

std::unique_ptr<PeerClient> Peers(const BenchNode& node) {
  PeerClientOptions options;
  options.coordinator = node.join.coordinator;
  options.node_id = node.folder->node_id();
  options.incarnation = node.join.incarnation;
  options.manifest_digest = kScalingDigest;
  options.shape = FullExperts().expert_shape();
  return std::make_unique<PeerClient>(options);
}

// As JoinCluster, of a node whose share is beside what its layers come from.
std::unique_ptr<CoordinatorClient> Join(const BenchNode& node,
                                        const ShareStore& share) {
  CoordinatorClientOptions client;
  client.coordinator = node.join.coordinator;
  *client.join.mutable_identity() = node.node->identity();
  client.join.set_address(node.node->address());
  client.join.set_home(node.folder->home());
  client.join.set_incarnation(node.join.incarnation);
  client.holdings_version = [&share] { return share.held_version(); };
  client.holdings = [&share] { return HoldingsOf(FullExperts(), share); };
  client.capacity = [folder = share.records().folder()] {
    return CapacityOfMachine(folder);
  };
  client.load = [] { return v1::NodeLoad(); };
  client.on_refused = [](const absl::Status& why) { CHECK_OK(why); };
  return std::make_unique<CoordinatorClient>(std::move(client), *node.folder);
}

// So that a run may copy more than this machine's drive has room for.
void KeepSmall(RecordStore& records) {
  if (records.stats().held_bytes <= kMostHeldBytes) return;
  const ModelSpec spec = FullExperts();
  for (int layer = spec.first_k_dense_replace; layer < spec.num_hidden_layers;
       ++layer) {
    for (int expert = 0; expert < spec.num_experts; ++expert) {
      for (const SliceRun run : records.HeldSlices({layer, expert})) {
        CHECK_OK(records.Remove({layer, expert}, run));
      }
    }
  }
}

// One order a question, so that a change of the budget is soon heard of.
ShareFillerOptions FillerOptions(BenchNode& node, PeerClient& peers,
                                 ShareStore& share,
                                 CoordinatorClient& coordinator,
                                 RebalanceBoard& board,
                                 RebalanceBoard::Taker& taker) {
  ShareFillerOptions options;
  options.max_orders = 1;
  options.retry = kLook;
  options.ask =
      [&](uint32_t max_orders) -> absl::StatusOr<v1::NextCopiesReply> {
    const int64_t budget = board.budget;
    KeepSmall(share.records());
    auto reply = peers.NextCopies(max_orders, /*has_source=*/false);
    if (budget == RebalanceBoard::kNoCopies) {
      reply = v1::NextCopiesReply();
      reply->set_not_planned(true);
    } else if (reply.ok()) {
      reply->set_bytes_per_second(static_cast<uint64_t>(budget));
    }
    taker.is_copying = reply.ok() && reply->orders_size() > 0;
    return reply;
  };
  options.wait_until_idle = [&node](absl::Time deadline) {
    node.node->WaitUntilIdle(deadline);
  };
  options.tell_holdings = [&coordinator] { coordinator.Hurry(); };
  return options;
}

}  // namespace

RebalanceBoard& RebalanceBoard::Make() {
  void* const memory = mmap(nullptr, sizeof(RebalanceBoard),
                            PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                            /*fd=*/-1, /*offset=*/0);
  CHECK(memory != MAP_FAILED);
  return *new (memory) RebalanceBoard;
}

std::unique_ptr<Child> RebalanceCoordinator() {
  return std::make_unique<Child>([](const std::function<void(int)>& tell) {
    auto epochs = EpochFile::Open("", SystemClock().Now());
    CHECK_OK(epochs.status());
    NodeRegistry registry(
        CoordinatorOptions(), *std::move(epochs),
        [](const std::string& address) { return MakeExpertChannel(address); },
        SystemClock());
    const RegistryTicker ticker(registry, kTick);
    ClusterService service(registry);
    grpc::Service* const services[] = {&service};
    auto server = ServerLifecycle::Start({"127.0.0.1:0"}, services);
    CHECK_OK(server.status());
    tell((*server)->bound_port());
    pause();
  });
}

std::unique_ptr<Child> GivingNode(const RebalanceSetup& setup,
                                  RebalanceBoard& board) {
  return std::make_unique<Child>([&](const std::function<void(int)>& tell) {
    BenchNode node(setup, "giver");
    const std::unique_ptr<CoordinatorClient> client =
        JoinCluster(node.join, setup.folder, *node.node, *node.folder,
                    [](const absl::Status& why) { CHECK_OK(why); });
    tell(node.node->bound_port());
    while (true) {
      board.given_bytes = node.node->slices().bytes_sent();
      absl::SleepFor(kLook);
    }
  });
}

std::unique_ptr<Child> TakingNode(const RebalanceSetup& setup, int index,
                                  RebalanceBoard& board) {
  return std::make_unique<Child>([&](const std::function<void(int)>& tell) {
    BenchNode node(setup, "taker" + std::to_string(index));
    RebalanceBoard::Taker& taker = board.takers[index];
    const std::unique_ptr<PeerClient> peers = Peers(node);
    const std::unique_ptr<ShareStore> share = OpenShare(node, *peers);
    const std::unique_ptr<CoordinatorClient> client = Join(node, *share);
    const ShareFiller filler(
        *share, FillerOptions(node, *peers, *share, *client, board, taker));
    tell(node.node->bound_port());
    while (true) {
      taker.copied_bytes = filler.report().copied_bytes;
      absl::SleepFor(kLook);
    }
  });
}

}  // namespace deltafin::bench
