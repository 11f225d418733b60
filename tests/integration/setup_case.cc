#include "tests/integration/setup_case.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/file_io.h"
#include "spdlog/fmt/fmt.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

uint64_t BytesSent(const HubEmulator& hub) {
  return nlohmann::json::parse(hub.CountsJson())["bytes_sent"];
}

// One start of the installation, ended after a random part of `whole`.
void RunAndKill(const Words& words, const ProcessOptions& options,
                absl::Duration after) {
  auto process = Process::Start(Join({DeltafinBinary()}, words), options);
  ASSERT_TRUE(process.ok()) << process.status();
  absl::SleepFor(after);
  (*process)->Signal(SIGKILL);
  const auto code = (*process)->Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  ASSERT_TRUE(*code == -SIGKILL || *code == 0) << (*process)->err();
}

}  // namespace

Words FromNano() { return {"--from", NanoModelDir()}; }
Words FromHub() { return {"--model", "deltafin/k3-nano"}; }

std::unique_ptr<HubEmulator> StartNanoHub(HubEmulatorOptions::Tls tls) {
  HubEmulatorOptions options;
  options.tls = tls;
  options.directory = NanoModelDir();
  options.token = "secret";
  auto hub = HubEmulator::Start(options);
  if (!hub.ok()) {
    ADD_FAILURE() << hub.status();
    return nullptr;
  }
  return *std::move(hub);
}

ProcessOptions ReachHub(const HubEmulator& hub) {
  ProcessOptions options;
  options.environment = {"HF_ENDPOINT=" + hub.endpoint(), "HF_TOKEN=secret",
                         "no_proxy=*"};
  return options;
}

ProcessResult RunWith(const Words& arguments, const ProcessOptions& options) {
  absl::StatusOr<ProcessResult> result = RunProcess(
      Join({DeltafinBinary()}, arguments), absl::Minutes(4), options);
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    return {-1, "", ""};
  }
  return *std::move(result);
}

std::map<std::string, std::string> DigestsIn(const std::string& dir,
                                             SourceFileIs source) {
  std::map<std::string, std::string> digests;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name == "lock") continue;
    if (name == "source" && source == SourceFileIs::kIgnored) continue;
    const absl::StatusOr<std::string> bytes =
        ReadFile(entry.path().string(), kMaxFileBytes);
    if (!bytes.ok()) ADD_FAILURE() << bytes.status();
    Sha256 sha;
    sha.Update(
        {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
    digests[fs::relative(entry.path(), dir).string()] = sha.FinishHex();
  }
  return digests;
}

std::string OutputOf(const std::string& model, const ProcessOptions& options) {
  const ProcessResult result =
      RunWith({"run", "--model", model, "--prompt", "It was a dark",
               "--max-new-tokens", "12", "--json"},
              options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  return json.is_object() ? json["output_sha256"].get<std::string>() : "";
}

void CheckKilledSetup(int num_kills, uint32_t seed) {
  const TempDir folder;
  const auto hub = StartNanoHub();
  ASSERT_NE(hub, nullptr);
  const ProcessOptions reach = ReachHub(*hub);
  const std::string clean = folder.File("clean");
  const auto install = [&](const std::string& dir) {
    return Join(Join({"setup", "--full"}, FromHub()), {"--dir", dir});
  };
  const absl::Time begin = absl::Now();
  const ProcessResult whole = RunWith(install(clean), reach);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const absl::Duration duration = absl::Now() - begin;
  const uint64_t clean_bytes = BytesSent(*hub);

  const std::string killed = folder.File("killed");
  const Words resume = {"setup", "--resume", "--dir", killed};
  std::mt19937 random(seed);
  // So that the kills are spread over one installation.
  std::uniform_real_distribution<double> part(0, 2.2 / num_kills);
  for (int i = 0; i < num_kills; ++i) {
    const bool begun = fs::exists(killed + "/source");
    RunAndKill(begun ? resume : install(killed), reach,
               absl::Milliseconds(60) + duration * part(random));
    if (::testing::Test::HasFatalFailure()) return;
  }
  const bool begun = fs::exists(killed + "/source");
  const ProcessResult last = RunWith(begun ? resume : install(killed), reach);
  ASSERT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(DigestsIn(killed, SourceFileIs::kPart),
            DigestsIn(clean, SourceFileIs::kPart));
  // A kill costs the experts and the piece of a file that were on their way,
  // and the list of files: five of them at most 2 %.
  const double killed_bytes =
      static_cast<double>(BytesSent(*hub) - clean_bytes);
  EXPECT_LE(killed_bytes / static_cast<double>(clean_bytes),
            1 + 0.004 * num_kills);
  EXPECT_LE(hub->most_cdn_connections(), 8 + 2);  // two for slow ranges
  EXPECT_EQ(hub->num_foreign_authorizations(), 0);
}

}  // namespace deltafin::testing
