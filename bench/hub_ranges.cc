// Times parallel ranges of an emulated repository, and tells what they cost in
// memory beside the memory that they are read into.

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "bench/child.h"
#include "bench/flags.h"
#include "common/base/check.h"
#include "common/base/file_io.h"
#include "expert_node/storage/hub_source.h"
#include "tests/testing/hub_emulator.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::bench {
namespace {

constexpr char kHelp[] =
    "usage: hub_ranges [--parallel N] [--rounds N] [--json]\n"
    "Reads N (32) ranges of one K3 expert (17,547,264 bytes) at once, rounds\n"
    "(3) times, over as many connections, from an emulated Hub in another\n"
    "process: GB/s, and the peak of resident memory with and without the\n"
    "memory that is read into.\n";
constexpr size_t kExpertBytes = 17547264;

struct Options {
  int parallel = 32;
  int rounds = 3;
  bool json = false;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("hub_ranges", kHelp);
  flags.AddNumber("--parallel", options.parallel, 1, 1024);
  flags.AddNumber("--rounds", options.rounds);
  flags.AddSwitch("--json", options.json);
  flags.Parse(argc, argv);
  return options;
}

double PeakMiB() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Seconds of one round: all ranges at once.
double Round(HubSource& source, std::vector<std::vector<uint8_t>>& out) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> readers;
  for (size_t i = 0; i < out.size(); ++i) {
    readers.emplace_back([&, i] {
      CHECK_OK(source.Read("experts.safetensors", 4096 * i, out[i]));
    });
  }
  for (std::thread& reader : readers) reader.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

void Report(const Options& options, double seconds, double before_mib,
            double peak_mib) {
  const double bytes = 1.0 * kExpertBytes * options.parallel * options.rounds;
  const double out_mib = 1.0 * kExpertBytes * options.parallel / (1 << 20);
  std::printf(
      options.json
          ? "{\"parallel\": %d, \"gb_per_s\": %.3f, \"peak_mib\": %.1f, "
            "\"read_into_mib\": %.1f, \"before_mib\": %.1f, "
            "\"transfer_mib\": %.1f}\n"
          : "%d ranges at once: %.3f GB/s; peak %.1f MiB, of it read into "
            "%.1f, the process before %.1f, the transfers %.1f\n",
      options.parallel, 1e-9 * bytes / seconds, peak_mib, out_mib, before_mib,
      peak_mib - out_mib - before_mib);
}

void Main(const Options& options) {
  const TempDir folder;
  CHECK_OK(WriteFileAtomically(folder.File("experts.safetensors"), "x"));
  std::filesystem::resize_file(folder.File("experts.safetensors"),
                               kExpertBytes + 4096 * 1024);
  const Child emulator([&](const std::function<void(int)>& tell) {
    testing::HubEmulatorOptions hub;
    hub.directory = folder.path();
    const auto started = testing::HubEmulator::Start(hub);
    CHECK_OK(started.status());
    const std::string url = (*started)->endpoint();
    tell(std::atoi(url.c_str() + url.rfind(':') + 1));
    pause();
  });
  HubOptions hub;
  hub.access.endpoint = "http://127.0.0.1:" + std::to_string(emulator.port());
  hub.model = {"deltafin/k3-nano", "main"};
  hub.http.max_connections = options.parallel;
  auto source = HubSource::Create(hub);
  CHECK_OK(source.status());
  const double before_mib = PeakMiB();
  std::vector<std::vector<uint8_t>> out(static_cast<size_t>(options.parallel));
  for (auto& one : out) one.resize(kExpertBytes);
  double seconds = 0;
  for (int i = 0; i < options.rounds; ++i) seconds += Round(**source, out);
  Report(options, seconds, before_mib, PeakMiB());
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  deltafin::bench::Main(deltafin::bench::ParseOptions(argc, argv));
}
