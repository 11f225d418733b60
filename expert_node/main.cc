// deltafin-node: serves the routed experts of a model to coordinators.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/model_directory.h"
#include "common/base/mutex.h"
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

namespace deltafin {
namespace {

// How long SIGTERM waits for running requests: one layer of a large prompt
// from disk.
constexpr absl::Duration kDrain = absl::Seconds(30);

int Fail(const absl::Status& status) {
  const std::string message(status.message());
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

// Until a signal or a refusal; a member meanwhile where it is to join. Says
// that the node listens once a signal would end it well.
absl::Status ServeUntilAsked(const NodeCommand& command, const ExpertNode& node,
                             DataFolder* folder, TerminationSignal& signals) {
  Ending ending;
  const SignalHandling handling(signals, [&ending](int signal) {
    return ending.Ask(signal, absl::OkStatus());
  });
  std::printf("listening on %s\n", node.address().c_str());
  std::fflush(stdout);
  std::unique_ptr<CoordinatorClient> client;  // leaves at its end
  if (!command.join.coordinator.empty()) {
    const std::string& coordinator = command.join.coordinator;
    client = JoinCluster(command.join, command.options.model_dir, node, *folder,
                         [&ending, &coordinator](const absl::Status& why) {
                           ending.Ask(0, RefusedJoin(coordinator, why));
                         });
  }
  return ending.Wait();
}

// Only an installed model may want experts of the Hub.
absl::StatusOr<HubAccess> HubAccessOfMachine(const std::string& model_dir) {
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(model_dir));
  if (layout == ModelLayout::kReleased) return HubAccess{};
  return ReadHubAccess([](const char* name) { return std::getenv(name); });
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
  ASSIGN_OR_RETURN(command.options.hub,
                   HubAccessOfMachine(command.options.model_dir));
  ASSIGN_OR_RETURN(const std::unique_ptr<ExpertNode> node,
                   ExpertNode::Create(command.options));
  RETURN_IF_ERROR(node->MeasureKernel());
  RETURN_IF_ERROR(node->Start());
  const v1::HandshakeReply& identity = node->identity();
  spdlog::info("model {} kernel {} threads {} expert tier {} bytes",
               command.options.model_dir, identity.kernel(), identity.threads(),
               identity.ram_bytes());
  std::unique_ptr<HttpServer> metrics;
  if (!command.metrics.empty()) {
    ASSIGN_OR_RETURN(metrics,
                     ServeMetrics(command.metrics, [&node](MetricsPage& page) {
                       AddNodeMetrics(*node, page);
                     }));
  }
  const absl::Status status =
      ServeUntilAsked(command, *node, folder.get(), signals);
  if (status.ok()) node->Shutdown(kDrain);
  return status;
}

absl::Status Run(const NodeCommand& command, TerminationSignal& signals) {
  const std::string& data_dir = command.join.data_dir;
  if (command.rebuild_ledger) return RebuildLedger(command.options, data_dir);
  if (command.measure_disk > absl::ZeroDuration()) {
    return RunDiskMeasurement(command.options.model_dir, data_dir,
                              command.measure_disk);
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
