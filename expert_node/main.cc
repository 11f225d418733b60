// deltafin-node: serves the routed experts of a model to coordinators.

#include <cstdio>
#include <string>

#include "common/base/log.h"
#include "expert_node/exit_code.h"
#include "expert_node/expert_node.h"
#include "expert_node/node_flags.h"
#include "expert_node/termination_signal.h"

namespace deltafin {
namespace {

// How long SIGTERM waits for running requests: one layer of a large prompt
// from disk.
constexpr absl::Duration kDrain = absl::Seconds(30);

int Fail(const absl::Status& status) {
  const std::string message(status.message());
  std::fprintf(stderr, "deltafin-node: %s\n", message.c_str());
  return NodeExitCodeOf(status);
}

int Serve(const ExpertNodeOptions& options, TerminationSignal& signal) {
  const auto node = ExpertNode::Create(options);
  if (!node.ok()) return Fail(node.status());
  if (absl::Status status = (*node)->Start(); !status.ok()) return Fail(status);
  const v1::HandshakeReply& identity = (*node)->identity();
  spdlog::info("model {} kernel {} threads {} expert tier {} bytes",
               options.model_dir, identity.kernel(), identity.threads(),
               identity.ram_bytes());
  std::printf("listening on %s\n", (*node)->address().c_str());
  std::fflush(stdout);
  spdlog::info("signal {}: draining", signal.Wait());
  (*node)->Shutdown(kDrain);
  return kNodeOk;
}

}  // namespace
}  // namespace deltafin

int main(int argc, char** argv) {
  using namespace deltafin;
  TerminationSignal signal;  // before any thread starts
  InitLogging("deltafin-node");
  const NodeCommand command = ParseNodeCommand(argc, argv);
  if (command.ends_at_once) return command.exit_code;
  if (absl::Status status = SetLogLevel(command.log_level); !status.ok()) {
    Fail(status);
    return kNodeUsage;
  }
  return Serve(command.options, signal);
}
