// expert_node/node_flags.h
//
// The command line of deltafin-node: flags over a configuration file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "expert_node/options.h"
#include "proto/config.pb.h"

namespace deltafin {

struct NodeCommand {
  // What to print and end with at once: help, version, or what is wrong with
  // the flags. Otherwise the node is to run.
  bool ends_at_once = false;
  int exit_code = 0;

  ExpertNodeOptions options;
  NodeJoinOptions join;
  // Longer than zero: measure the disk for so long and end.
  absl::Duration measure_disk;
  bool rebuild_ledger = false;  // and end
  std::string metrics;          // HOST:PORT of the metrics page; empty: none
  std::string log_level;
};

// Reads argv and, with --config, the file it names; prints help, version and
// flag errors itself. Asks the environment for the default cache directory.
NodeCommand ParseNodeCommand(int argc, char** argv);

// A reply delay for --test-reply-delay-us: uniform in [0, max_us], drawn from
// `seed`. Thread-safe.
std::function<absl::Duration()> RandomReplyDelay(uint32_t max_us,
                                                 uint64_t seed);

}  // namespace deltafin
