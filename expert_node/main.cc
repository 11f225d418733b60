// deltafin-node: serves the routed experts of a model to coordinators.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/model_directory.h"
#include "common/base/mutex.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "common/net/listen_address.h"
#include "common/net/termination_signal.h"
#include "expert_node/data_folder.h"
#include "expert_node/disk_measurement.h"
#include "expert_node/expert_node.h"
#include "expert_node/ledger_rebuild.h"
#include "expert_node/node_flags.h"
#include "expert_node/node_membership.h"
#include "expert_node/node_metrics.h"
#include "expert_node/share_membership.h"

namespace deltafin {
namespace {

// How long SIGTERM waits for running requests: one layer of a large prompt
// from disk.
constexpr absl::Duration kDrain = absl::Seconds(30);

int Fail(const absl::Status& status) {
  const std::string message = PrintableLines(std::string(status.message()));
  std::fprintf(stderr, "deltafin-node: %s\n", message.c_str());
  return ExitCodeOf(status);
}

// A port in use is refused before the model's files are hashed.
absl::Status CheckPort(const std::string& listen) {
  const absl::StatusOr<ListenAddress> address = ListenAddress::Parse(listen);
  return address.ok() ? RequireFreePort(*address) : address.status();
}

// Why the program ends: a signal, or the coordinator's refusal. Thread-safe.
class Ending {
 public:
  // False when asked before.
  bool Ask(int signal, const absl::Status& why) {
    MutexLock lock(mutex_);
    if (is_asked_) return false;
    is_asked_ = true;
    signal_ = signal;
    why_ = why;
    asked_.NotifyAll();
    return true;
  }
  absl::Status Wait() {
    MutexLock lock(mutex_);
    while (!is_asked_) asked_.Wait(mutex_);
    if (why_.ok()) spdlog::info("signal {}: draining", signal_);
    return why_;
  }

 private:
  Mutex mutex_;
  CondVar asked_;
  bool is_asked_ ABSL_GUARDED_BY(mutex_) = false;
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
};

// A refusal ends the program with one of two codes: what this node was given is
// wrong, or it may not join.
absl::Status RefusedJoin(const std::string& coordinator,
                         const absl::Status& why) {
  return WithExitCode(
      AddContext(why, fmt::format("coordinator {}", coordinator)),
      absl::IsInvalidArgument(why) ? kExitBadInput : kExitUnavailable);
}

// What a running node is a part of. Ends in the reverse order.
struct Cluster {
  std::unique_ptr<CoordinatorClient> coordinator;  // leaves at its end
  std::unique_ptr<ShareFiller> filler;
};

Cluster Join(const NodeCommand& command, ExpertNode& node, DataFolder* folder,
             PeerClient* peers, Ending& ending) {
  Cluster cluster;
  if (command.join.coordinator.empty()) return cluster;
  const std::string& coordinator = command.join.coordinator;
  const std::string& drive = command.options.share
                                 ? command.options.share->experts_folder
                                 : command.options.model_dir;
  cluster.coordinator =
      JoinCluster(command.join, drive, node, *folder,
                  [&ending, &coordinator](const absl::Status& why) {
                    ending.Ask(0, RefusedJoin(coordinator, why));
                  });
  if (peers != nullptr) {
    cluster.filler = FillShare(node, *peers, *cluster.coordinator);
  }
  return cluster;
}

absl::StatusOr<std::unique_ptr<HttpServer>> Metrics(const NodeCommand& command,
                                                    const ExpertNode& node,
                                                    const Cluster& cluster) {
  if (command.metrics.empty()) return nullptr;
  return ServeMetrics(command.metrics, [&node, &cluster](MetricsPage& page) {
    AddNodeMetrics(node, page);
    AddShareMetrics(cluster.filler == nullptr ? WholeShareOf(node)
                                              : cluster.filler->report(),
                    page);
  });
}

// Until a signal or a refusal; a member meanwhile where it is to join. Says
// that the node listens once a signal would end it well.
absl::Status ServeUntilAsked(const NodeCommand& command, ExpertNode& node,
                             DataFolder* folder, PeerClient* peers,
                             TerminationSignal& signals) {
  Ending ending;
  const SignalHandling handling(signals, [&ending](int signal) {
    return ending.Ask(signal, absl::OkStatus());
  });
  Cluster cluster = Join(command, node, folder, peers, ending);
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> metrics,
                   Metrics(command, node, cluster));
  std::printf("listening on %s\n", node.address().c_str());
  std::fflush(stdout);
  const absl::Status status = ending.Wait();
  if (cluster.filler != nullptr) cluster.filler->Stop();
  if (cluster.coordinator != nullptr) cluster.coordinator->Stop();
  if (status.ok()) node.Shutdown(kDrain);
  if (peers != nullptr) peers->Cancel();  // a copy under way
  return status;
}

// Only what is fetched from it wants access to the Hub.
absl::StatusOr<HubAccess> HubAccessOfMachine(const ExpertNodeOptions& options) {
  bool wants = options.share && options.share->repository;
  if (!options.share) {
    ASSIGN_OR_RETURN(const ModelLayout layout,
                     LayoutOfModel(options.model_dir));
    wants = layout == ModelLayout::kInstalled;
  }
  if (!wants) return HubAccess{};
  return ReadHubAccess([](const char* name) { return std::getenv(name); });
}

// What the coordinator tells of the model; null where the node has it.
absl::StatusOr<std::unique_ptr<PeerClient>> PrepareShare(NodeCommand& command) {
  if (!command.options.share) return nullptr;
  const absl::Status learned = LearnModel(command.join, &command.options);
  if (!learned.ok()) return RefusedJoin(command.join.coordinator, learned);
  ASSIGN_OR_RETURN(std::unique_ptr<PeerClient> peers,
                   ReachPeers(command.join, command.options));
  command.options.share->peers = peers.get();
  return peers;
}

absl::Status Serve(NodeCommand command, TerminationSignal& signals) {
  RETURN_IF_ERROR(CheckPort(command.options.listen));
  std::unique_ptr<DataFolder> folder;
  if (!command.join.data_dir.empty()) {
    ASSIGN_OR_RETURN(folder, DataFolder::Open(command.join.data_dir));
    command.options.node_id = folder->node_id();
    command.options.data_dir = command.join.data_dir;
    command.options.sustained_read = folder->sustained_read();
  }
  ASSIGN_OR_RETURN(command.options.hub, HubAccessOfMachine(command.options));
  ASSIGN_OR_RETURN(const std::unique_ptr<PeerClient> peers,
                   PrepareShare(command));
  ASSIGN_OR_RETURN(const std::unique_ptr<ExpertNode> node,
                   ExpertNode::Create(command.options));
  RETURN_IF_ERROR(node->MeasureKernel());
  RETURN_IF_ERROR(node->Start());
  const v1::HandshakeReply& identity = node->identity();
  spdlog::info("model {} kernel {} threads {} expert tier {} bytes",
               command.options.model_dir, identity.kernel(), identity.threads(),
               identity.ram_bytes());
  return ServeUntilAsked(command, *node, folder.get(), peers.get(), signals);
}

// Where the experts lie that a node of these options serves.
absl::StatusOr<std::string> ExpertsFolder(const ExpertNodeOptions& options) {
  if (options.share) return options.share->experts_folder;
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(options.model_dir));
  return layout == ModelLayout::kReleased
             ? options.model_dir
             : InstalledPaths(options.model_dir).experts_folder();
}

absl::Status Run(const NodeCommand& command, TerminationSignal& signals) {
  const std::string& data_dir = command.join.data_dir;
  if (command.rebuild_ledger) return RebuildLedger(command.options, data_dir);
  if (command.measure_disk > absl::ZeroDuration()) {
    ASSIGN_OR_RETURN(const std::string folder, ExpertsFolder(command.options));
    return RunDiskMeasurement(folder, data_dir, command.measure_disk);
  }
  return Serve(command, signals);
}

}  // namespace
}  // namespace deltafin

int main(int argc, char** argv) {
  using namespace deltafin;
  TerminationSignal signals("deltafin-node");
  InitLogging("deltafin-node");
  const NodeCommand command = ParseNodeCommand(argc, argv);
  if (command.ends_at_once) return command.exit_code;
  if (absl::Status status = SetLogLevel(command.log_level); !status.ok()) {
    Fail(status);
    return kExitUsage;
  }
  const absl::Status status = Run(command, signals);
  return status.ok() ? kExitOk : Fail(status);
}
