// deltafin-node: serves the routed experts of a model to coordinators.

#include <cstdio>
#include <string>

#include "common/base/log.h"
#include "common/net/exit_code.h"
#include "common/net/listen_address.h"
#include "common/net/termination_signal.h"
#include "expert_node/expert_node.h"
#include "expert_node/node_flags.h"

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

int Serve(const ExpertNodeOptions& options, TerminationSignal& signals) {
  if (absl::Status status = CheckPort(options.listen); !status.ok()) {
    return Fail(status);
  }
  const auto node = ExpertNode::Create(options);
  if (!node.ok()) return Fail(node.status());
  if (absl::Status status = (*node)->Start(); !status.ok()) return Fail(status);
  const v1::HandshakeReply& identity = (*node)->identity();
  spdlog::info("model {} kernel {} threads {} expert tier {} bytes",
               options.model_dir, identity.kernel(), identity.threads(),
               identity.ram_bytes());
  std::printf("listening on %s\n", (*node)->address().c_str());
  std::fflush(stdout);
  spdlog::info("signal {}: draining", signals.Wait());
  (*node)->Shutdown(kDrain);
  return kExitOk;
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
  return Serve(command.options, signals);
}
