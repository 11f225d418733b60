// Installing a model, from a directory and from an emulated Hub, and running
// it from there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "tests/integration/deltafin_program.h"
#include "tests/integration/setup_case.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// k3-nano has 12 layers of 64 experts.
constexpr int kNumExperts = 768;
// Three matrices of 32 x 96 codes and their scales.
constexpr uint64_t kExpertBytes = 3 * 32 * 96 * 17 / 32;

// Requests for ranges of that many bytes.
int NumRangesOf(const HubEmulator& hub, uint64_t bytes) {
  int count = 0;
  for (const HubRequest& request : hub.requests()) {
    uint64_t begin = 0;
    uint64_t end = 0;
    if (std::sscanf(request.range.c_str(), "bytes=%lu-%lu", &begin, &end) ==
            2 &&
        end - begin + 1 == bytes) {
      ++count;
    }
  }
  return count;
}

std::string ReleasedOutput() {
  static const std::string output = OutputOf(NanoModelDir());
  return output;
}

class SetupTest : public ::testing::Test {
 protected:
  Words SetupOf(const std::string& how, const Words& from) const {
    return Join(Join({"setup", how}, from), {"--dir", dir_});
  }
  void ExpectDone(const ProcessResult& result) {
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  void ExpectRefused(const Words& words, int exit_code,
                     const Words& message_parts) {
    const ProcessResult result = RunWith(words, {});
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    for (const std::string& part : message_parts) {
      EXPECT_THAT(result.err, HasSubstr(part));
    }
  }

  const TempDir folder_;
  const std::string dir_ = folder_.File("model");
};

TEST_F(SetupTest, FullInstallOfADirectoryRunsTheSameWithoutIt) {
  const std::string released = folder_.File("released");
  CopyNano(released);
  const ProcessResult setup =
      RunWith(SetupOf("--full", {"--from", released}), {});
  ExpectDone(setup);
  EXPECT_THAT(setup.err, AllOf(HasSubstr("of experts"), HasSubstr("free")));
  fs::remove_all(released);
  EXPECT_EQ(OutputOf(dir_), ReleasedOutput());
  const nlohmann::json doctor = RunDeltafinJson({"doctor", "--deep", dir_});
  EXPECT_EQ(doctor["experts_installed"], kNumExperts);
  EXPECT_TRUE(doctor["findings"].empty()) << doctor;
  EXPECT_FALSE(doctor["streaming"]);
}

TEST_F(SetupTest, InstalledAndReleasedNodesAreOneCluster) {
  ExpectDone(RunWith(SetupOf("--full", FromNano()), {}));
  auto node = Process::Start(
      {DeltafinNodeBinary(), "--model", dir_, "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE((*node)
                  ->WaitForOutput(
                      [](std::string_view out, std::string_view) {
                        return out.find("listening on ") != out.npos &&
                               out.ends_with("\n");
                      },
                      absl::Minutes(1))
                  .ok())
      << (*node)->err();
  std::string address = (*node)->out();
  address = address.substr(address.find("listening on ") + 13);
  address.pop_back();
  const nlohmann::json run =
      RunDeltafinJson({"run", "--model", NanoModelDir(), "--nodes", address,
                       "--prompt", "It was a dark", "--max-new-tokens", "12"});
  EXPECT_EQ(run["output_sha256"], ReleasedOutput());
}

TEST_F(SetupTest, StreamedExpertsAreKeptAndTheRestIsFetchedLater) {
  const std::string released = folder_.File("released");
  CopyNano(released);
  ExpectDone(RunWith(SetupOf("--stream", {"--from", released}), {}));
  nlohmann::json doctor = RunDeltafinJson({"doctor", dir_});
  EXPECT_EQ(doctor["experts_installed"], 0);
  EXPECT_TRUE(doctor["streaming"]);
  const ProcessResult first =
      RunWith({"run", "--model", dir_, "--prompt", "It was a dark",
               "--max-new-tokens", "12", "--json"},
              {});
  ExpectDone(first);
  EXPECT_EQ(nlohmann::json::parse(first.out)["output_sha256"],
            ReleasedOutput());
  EXPECT_THAT(first.err, HasSubstr("still streaming: 0 of 768 experts"));
  doctor = RunDeltafinJson({"doctor", "--deep", dir_});
  const int held = doctor["experts_installed"];
  EXPECT_GT(held, 0);
  EXPECT_LT(held, kNumExperts);

  // What was used is here; what was not cannot be had without the source.
  fs::rename(released, folder_.File("away"));
  EXPECT_EQ(OutputOf(dir_), ReleasedOutput());
  ExpectRefused(
      {"run", "--model", dir_, "--prompt",
       "Machines, ships; 1789 guns! Quick zephyrs", "--max-new-tokens", "40"},
      69, {"layer ", "expert ", released, "cannot supply it"});

  fs::rename(folder_.File("away"), released);
  ExpectDone(RunWith({"fetch-experts", dir_}, {}));
  fs::remove_all(released);
  doctor = RunDeltafinJson({"doctor", "--deep", dir_});
  EXPECT_EQ(doctor["experts_installed"], kNumExperts);
  EXPECT_EQ(OutputOf(dir_), ReleasedOutput());
}

TEST_F(SetupTest, HubAndDirectoryGiveTheSameFolder) {
  const auto hub = StartNanoHub();
  ASSERT_NE(hub, nullptr);
  ExpectDone(RunWith(SetupOf("--full", FromHub()), ReachHub(*hub)));
  const std::string other = folder_.File("other");
  ExpectDone(RunWith(
      {"setup", "--full", "--from", NanoModelDir(), "--dir", other}, {}));
  EXPECT_EQ(DigestsIn(dir_, SourceFileIs::kIgnored),
            DigestsIn(other, SourceFileIs::kIgnored));
  EXPECT_EQ(OutputOf(dir_), ReleasedOutput());
  EXPECT_EQ(hub->num_foreign_authorizations(), 0);
  EXPECT_EQ(NumRangesOf(*hub, kExpertBytes), kNumExperts);
}

TEST_F(SetupTest, StreamFromTheHubRunsTheSame) {
  const auto hub = StartNanoHub();
  ASSERT_NE(hub, nullptr);
  ExpectDone(RunWith(SetupOf("--stream", FromHub()), ReachHub(*hub)));
  const int before = hub->num_cdn_requests();
  EXPECT_EQ(OutputOf(dir_, ReachHub(*hub)), ReleasedOutput());
  EXPECT_GT(hub->num_cdn_requests(), before);
  const int after = hub->num_cdn_requests();
  EXPECT_EQ(OutputOf(dir_, ReachHub(*hub)), ReleasedOutput());
  EXPECT_EQ(hub->num_cdn_requests(), after);
}

TEST_F(SetupTest, HttpsHubIsTrustedByTheAuthorityOfTheEnvironment) {
  const auto hub = StartNanoHub(HubEmulatorOptions::Tls::kBoth);
  ASSERT_NE(hub, nullptr);
  ProcessOptions reach = ReachHub(*hub);
  const ProcessResult unknown = RunWith(SetupOf("--stream", FromHub()), reach);
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_THAT(unknown.err, HasSubstr("certificate"));
  EXPECT_TRUE(hub->requests().empty());

  const std::string authority = folder_.File("authority.pem");
  std::ofstream(authority) << hub->authority();
  reach.environment.push_back("CURL_CA_BUNDLE=" + authority);
  ExpectDone(RunWith(SetupOf("--stream", FromHub()), reach));
  EXPECT_EQ(OutputOf(dir_, reach), ReleasedOutput());
  EXPECT_EQ(hub->num_foreign_authorizations(), 0);
}

// No list of the Hub tells the digest of an expert, only those of whole shards.
TEST_F(SetupTest, FlippedBitOfAnExpertOnTheWayIsFoundAndMended) {
  const auto hub = StartNanoHub();
  ASSERT_NE(hub, nullptr);
  HubFault fault;
  fault.kind = FaultKind::kFlippedBit;
  fault.after = kNumExperts / 2;  // the spine comes first, in fewer ranges
  hub->Inject(fault);
  const ProcessResult setup =
      RunWith(SetupOf("--full", FromHub()), ReachHub(*hub));
  ExpectDone(setup);
  EXPECT_THAT(setup.err,
              AllOf(HasSubstr("put together again is not what was released"),
                    HasSubstr("fetching it again")));
  ExpectDone(RunDeltafin({"doctor", "--deep", dir_}));
  EXPECT_EQ(OutputOf(dir_), ReleasedOutput());
  // The experts of one shard came a second time.
  EXPECT_LE(NumRangesOf(*hub, kExpertBytes), kNumExperts + 64);
}

TEST_F(SetupTest, WhatWasNotComparedIsComparedLater) {
  const auto hub = StartNanoHub();
  ASSERT_NE(hub, nullptr);
  HubFault fault;
  fault.kind = FaultKind::kFlippedBit;
  fault.after = kNumExperts / 2;
  hub->Inject(fault);
  ExpectDone(RunWith(Join(SetupOf("--full", FromHub()), {"--no-compare"}),
                     ReachHub(*hub)));
  const ProcessResult deep = RunDeltafin({"doctor", "--deep", dir_});
  EXPECT_EQ(deep.exit_code, 1) << deep.err;
  EXPECT_THAT(deep.out,
              AllOf(HasSubstr("put together again is not what was released"),
                    HasSubstr("this mends it: deltafin setup --resume --check "
                              "--dir " +
                              dir_)));
  ExpectDone(
      RunWith({"setup", "--resume", "--check", "--dir", dir_}, ReachHub(*hub)));
  ExpectDone(RunDeltafin({"doctor", "--deep", dir_}));

  // All were compared: nothing is read or asked for.
  const int before = hub->num_cdn_requests();
  const ProcessResult again =
      RunWith({"setup", "--resume", "--dir", dir_}, ReachHub(*hub));
  ExpectDone(again);
  EXPECT_THAT(again.err, Not(HasSubstr("with the released SHA-256")));
  EXPECT_EQ(hub->num_cdn_requests(), before);
}

TEST_F(SetupTest, UnfinishedInstallationSaysHowToGoOn) {
  fs::create_directories(dir_);
  std::ofstream(dir_ + "/format") << "deltafin-model 1\n";
  ExpectRefused({"run", "--model", dir_, "--prompt", "a"}, 65,
                {"deltafin setup --resume --dir " + dir_});
  ExpectRefused({"setup", "--resume", "--dir", dir_}, 65,
                {"name a source with `deltafin setup`"});
  ExpectDone(RunWith(SetupOf("--full", FromNano()), {}));
  EXPECT_EQ(OutputOf(dir_), ReleasedOutput());
}

TEST_F(SetupTest, OtherFormatIsRefused) {
  fs::create_directories(dir_);
  std::ofstream(dir_ + "/format") << "deltafin-model 2\n";
  ExpectRefused({"run", "--model", dir_, "--prompt", "a"}, 65,
                {"deltafin-model 2", "deltafin-model 1"});
}

TEST_F(SetupTest, FolderOfOthersIsLeftAlone) {
  fs::create_directories(dir_);
  std::ofstream(dir_ + "/thesis.txt") << "mine";
  ExpectRefused(SetupOf("--full", FromNano()), 65, {"not empty", "thesis.txt"});
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), {}), 1);
}

TEST_F(SetupTest, AnotherSourceIsRefused) {
  ExpectDone(RunWith(SetupOf("--stream", FromNano()), {}));
  const std::string released = folder_.File("released");
  CopyNano(released);
  ExpectRefused(SetupOf("--full", {"--from", released}), 65,
                {NanoModelDir(), released, "--resume"});
}

TEST_F(SetupTest, WrongFlagsAreRefused) {
  ExpectRefused({"setup", "--dir", dir_}, 64, {"--full, --stream"});
  ExpectRefused(SetupOf("--full", Join(FromNano(), {"--model", "a/b"})), 64,
                {"--model and --from exclude each other"});
  ExpectRefused({"setup", "--full", "--stream", "--dir", dir_}, 64, {"one of"});
  ExpectRefused(SetupOf("--resume", FromNano()), 64,
                {"leave --model and --from"});
  ExpectRefused(SetupOf("--full", {"--model", "no slash"}), 64, {"--model"});
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(SetupTest, MissingSourceIsNamed) {
  ExpectRefused(SetupOf("--full", {"--from", folder_.File("nowhere")}), 65,
                {folder_.File("nowhere")});
  ExpectRefused(SetupOf("--full", {"--from", folder_.path()}), 65,
                {"has no file config.json"});
  const auto hub = StartNanoHub();
  ASSERT_NE(hub, nullptr);
  const ProcessResult result = RunWith(
      SetupOf("--full", {"--model", "deltafin/absent"}), ReachHub(*hub));
  EXPECT_EQ(result.exit_code, 65) << result.err;
  EXPECT_THAT(result.err, HasSubstr("deltafin/absent"));
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(SetupTest, SmallDiskIsRefusedWithTheNumbers) {
  const std::string disk = folder_.File("disk");
  fs::create_directory(disk);
  // Mounted for this one process, in a namespace that ends with it.
  const std::string script =
      "mount -t tmpfs -o size=8m none \"$0\" || exit 111; exec \"$@\"";
  const auto result =
      RunProcess({"/usr/bin/unshare", "--mount", "/bin/sh", "-c", script, disk,
                  DeltafinBinary(), "setup", "--full", "--from", NanoModelDir(),
                  "--reserve", "0", "--dir", disk + "/model"},
                 absl::Minutes(2));
  ASSERT_TRUE(result.ok()) << result.status();
  if (result->exit_code == 111) GTEST_SKIP() << result->err;
  EXPECT_EQ(result->exit_code, 69) << result->err;
  EXPECT_THAT(result->err, AllOf(HasSubstr("needs"), HasSubstr("8.00 MiB"),
                                 HasSubstr("--stream")));
}

TEST_F(SetupTest, CtrlCEndsWellAndSaysHowToGoOn) {
  HubEmulatorOptions options;
  options.directory = NanoModelDir();
  options.bytes_per_second =
      500'000;  // of each connection: many seconds in all
  const auto hub = HubEmulator::Start(options);
  ASSERT_TRUE(hub.ok()) << hub.status();
  auto setup = Process::Start(
      Join({DeltafinBinary()}, SetupOf("--full", FromHub())), ReachHub(**hub));
  ASSERT_TRUE(setup.ok()) << setup.status();
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!fs::exists(dir_ + "/manifest")) {
    ASSERT_LT(absl::Now(), deadline) << (*setup)->err();
    absl::SleepFor(absl::Milliseconds(10));
  }
  (*setup)->Signal(SIGINT);
  const auto code = (*setup)->Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 130) << (*setup)->err();
  EXPECT_THAT((*setup)->err(),
              HasSubstr("deltafin setup --resume --dir " + dir_));
}

TEST_F(SetupTest, KilledAnywhereItEndsWithTheSameFolder) {
  CheckKilledSetup(10, 1);
}

TEST_F(SetupTest, FiveKillsCostTwoPercentOfTheBytes) { CheckKilledSetup(5, 3); }

}  // namespace
}  // namespace deltafin::testing
