// How signals and lost readers end the programs: one message, the signal's exit
// code, and no file that is half-written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "tests/integration/inference_client.h"
#include "tests/testing/mini_cluster.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

const Words kEndlessRun{"run",  "--prompt-ids", "5,6", "--max-new-tokens",
                        "8000", "--ignore-eos"};

bool IsEmpty(const TempDir& folder) {
  return std::filesystem::is_empty(folder.path());
}

// Runs `script` with deltafin as $0 and `arguments` after it.
ProcessResult RunInShell(const std::string& script, const Words& arguments) {
  const auto result =
      RunProcess(Join({"/bin/sh", "-c", script, DeltafinBinary()}, arguments),
                 absl::Minutes(2));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : ProcessResult{-1, "", ""};
}

// Starts the program with `signal` blocked and already sent.
ProcessResult RunWithSignalWaiting(int signal, const Words& argv) {
  const std::string script =
      "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [" +
      std::to_string(signal) + "]); os.kill(os.getpid(), " +
      std::to_string(signal) + "); os.execv(sys.argv[1], sys.argv[1:])";
  const auto result = RunProcess(Join({"/usr/bin/python3", "-c", script}, argv),
                                 absl::Minutes(2));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : ProcessResult{-1, "", ""};
}

struct Ending {
  int signal;
  int exit_code;
  const char* message;
};

class TerminationTest : public ::testing::TestWithParam<Ending> {};

TEST_P(TerminationTest, EndsAGenerationAndItsDump) {
  const TempDir folder;
  auto process = Process::Start(
      Join(Join({DeltafinBinary()}, kEndlessRun),
           {"--dump-logits", folder.File("logits.safetensors")}));
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE(
      (*process)
          ->WaitForOutput([](std::string_view out,
                             std::string_view) { return out.size() > 20; },
                          absl::Minutes(1))
          .ok());
  (*process)->Signal(GetParam().signal);
  const auto code = (*process)->Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, GetParam().exit_code);
  EXPECT_THAT((*process)->err(), HasSubstr(GetParam().message));
  EXPECT_TRUE(IsEmpty(folder));
}

TEST_P(TerminationTest, CountsFromTheFirstMomentOn) {
  for (const Words& argv :
       {Join({DeltafinBinary()}, kEndlessRun),
        Words{DeltafinBinary(), "eval", "--text", "/no/such/text"},
        Words{DeltafinNodeBinary(), "--model", NanoModelDir(), "--listen",
              "127.0.0.1:0"}}) {
    const ProcessResult result = RunWithSignalWaiting(GetParam().signal, argv);
    EXPECT_EQ(result.exit_code, GetParam().exit_code) << argv[1];
    EXPECT_THAT(result.err, HasSubstr(": interrupted by ")) << argv[1];
  }
}

TEST_P(TerminationTest, LeavesNoPartOfAnInt8SpineBehind) {
  const TempDir folder;
  const std::string model = folder.File("model");
  CopyNano(model);
  auto process = Process::Start(Join(Join({DeltafinBinary()}, kEndlessRun),
                                     {"--model", model, "--spine", "int8"}));
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE((*process)
                  ->WaitForOutput(
                      [](std::string_view out, std::string_view err) {
                        return out.find("making the int8") != out.npos ||
                               err.find("making the int8") != err.npos;
                      },
                      absl::Minutes(1))
                  .ok());
  (*process)->Signal(GetParam().signal);
  const auto code = (*process)->Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, GetParam().exit_code);
  for (const auto& entry :
       std::filesystem::directory_iterator(model + "/deltafin-spine-int8")) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name == "lock" || name.ends_with(".spine")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Signals, TerminationTest,
    ::testing::Values(Ending{SIGINT, 130, "deltafin: interrupted by Ctrl-C"},
                      Ending{SIGTERM, 143, "deltafin: interrupted by SIGTERM"},
                      Ending{SIGHUP, 129, "deltafin: interrupted by SIGHUP"}),
    [](const auto& info) { return std::to_string(info.param.signal); });

TEST(LostReaderTest, EndsAGenerationAndItsDump) {
  const TempDir folder;
  const ProcessResult result = RunInShell(
      "{ \"$0\" \"$@\"; echo code $? >&2; } | head -c 20",
      Join(kEndlessRun, {"--dump-logits", folder.File("logits.safetensors")}));
  EXPECT_EQ(result.out.size(), 20u);
  EXPECT_THAT(result.err, HasSubstr("code 69"));
  EXPECT_THAT(result.err, HasSubstr("standard output could not be written"));
  EXPECT_TRUE(IsEmpty(folder));
}

TEST(LostReaderTest, FullDiskUnderTheOutputIsAFailure) {
  for (const char* flag : {"--json", "--stats"}) {
    const ProcessResult result = RunInShell(
        "exec \"$0\" \"$@\" >/dev/full",
        {"run", "--prompt-ids", "5,6", "--max-new-tokens", "2", flag});
    EXPECT_EQ(result.exit_code, 69) << flag;
    EXPECT_THAT(result.err, HasSubstr("standard output could not be written"));
  }
}

TEST(HangUpTest, ServersDrainAndEndWell) {
  ServeProcess server({});
  server.process().Signal(SIGHUP);
  const auto serve_code = server.process().Wait(absl::Minutes(1));
  ASSERT_TRUE(serve_code.ok()) << serve_code.status();
  EXPECT_EQ(*serve_code, 0);

  auto cluster = MiniCluster::Start({.num_nodes = 1});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  (*cluster)->node(0).Signal(SIGHUP);
  const auto node_code = (*cluster)->node(0).Wait(absl::Minutes(1));
  ASSERT_TRUE(node_code.ok()) << node_code.status();
  EXPECT_EQ(*node_code, 0);
}

}  // namespace
}  // namespace deltafin::testing
