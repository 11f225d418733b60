// The Hub's emulator as a program, for tests over processes and network
// namespaces. Prints "listening on URL"; ends with SIGTERM or SIGINT.

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "tests/testing/hub_emulator.h"

namespace deltafin::testing {
namespace {

struct Flags {
  HubEmulatorOptions options;
  double url_lifetime_s = 3600;
  bool no_validators = false;
  std::vector<std::string> faults;
  std::string authority_file;
};

void AddFlags(CLI::App& app, Flags& flags) {
  HubEmulatorOptions& options = flags.options;
  app.add_option("directory", options.directory, "the repository's files")
      ->required();
  app.add_option("--repository", options.repository);
  app.add_option("--hub-address", options.hub_address);
  app.add_option("--cdn-address", options.cdn_address);
  app.add_option("--hub-port", options.hub_port);
  app.add_option("--cdn-port", options.cdn_port);
  app.add_option("--token", options.token, "what the Hub asks for");
  app.add_option("--lfs-from-bytes", options.lfs_from_bytes);
  app.add_option("--files-per-page", options.files_per_page);
  app.add_option("--bytes-per-second", options.bytes_per_second,
                 "of each connection");
  app.add_option("--etag-suffix", options.etag_suffix);
  app.add_option("--url-lifetime-s", flags.url_lifetime_s);
  app.add_flag("--no-validators", flags.no_validators);
  app.add_option("--tls", flags.authority_file,
                 "https; where the authority's certificate is written");
  app.add_option("--fault", flags.faults,
                 "KIND[:TIMES] of the CDN's next answers, TIMES -1 for all; "
                 "may be repeated");
}

bool InjectFault(HubEmulator& emulator, const std::string& text) {
  const size_t colon = text.find(':');
  const auto kind = FaultKindNamed(text.substr(0, colon));
  if (!kind) return false;
  HubFault fault;
  fault.kind = *kind;
  if (colon != std::string::npos) {
    fault.times = std::atoi(text.c_str() + colon + 1);
  }
  emulator.Inject(fault);
  return true;
}

int Serve(const Flags& flags) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const auto emulator = HubEmulator::Start(flags.options);
  if (!emulator.ok()) {
    std::fprintf(stderr, "hub_emulator: %s\n",
                 emulator.status().ToString().c_str());
    return 69;
  }
  if (!flags.authority_file.empty()) {
    std::ofstream(flags.authority_file) << (*emulator)->authority();
  }
  for (const std::string& fault : flags.faults) {
    if (!InjectFault(**emulator, fault)) {
      std::fprintf(stderr, "hub_emulator: no fault %s\n", fault.c_str());
      return 64;
    }
  }
  std::printf("listening on %s\n", (*emulator)->endpoint().c_str());
  std::fflush(stdout);
  int received = 0;
  sigwait(&ends, &received);
  return 0;
}

}  // namespace
}  // namespace deltafin::testing

int main(int argc, char** argv) {
  CLI::App app("Emulates Hugging Face on this machine.", "hub_emulator");
  deltafin::testing::Flags flags;
  deltafin::testing::AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  flags.options.url_lifetime = absl::Seconds(flags.url_lifetime_s);
  flags.options.tells_validators = !flags.no_validators;
  if (!flags.authority_file.empty()) {
    flags.options.tls = deltafin::testing::HubEmulatorOptions::Tls::kBoth;
  }
  return deltafin::testing::Serve(flags);
}
