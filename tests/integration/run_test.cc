// The program's plain behaviour: streams, reports, dumps, settings, help.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "common/base/digest.h"
#include "common/base/safetensors.h"
#include "tests/integration/deltafin_program.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Words kShortRun{"run", "--prompt", "It was a dark", "--max-new-tokens",
                      "6"};

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(RunTest, StreamsTextToStandardOutputAndTheRestToStandardError) {
  const Json report = RunDeltafinJson(kShortRun);
  const ProcessResult plain = RunDeltafin(Join(kShortRun, {"--stats"}));
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_EQ(plain.out, report["text"].get<std::string>() + "\n");
  EXPECT_THAT(plain.err, AllOf(HasSubstr("spine compute"),
                               HasSubstr("in-process"), HasSubstr("reserve")));
}

TEST(RunTest, TakesThePromptFromStandardInput) {
  const Words options = {"--max-new-tokens", "6", "--ignore-eos"};
  const ProcessResult given =
      RunDeltafin(Join({"run", "--prompt", "It was a dark\nnight"}, options));
  const auto piped =
      RunProcess(Join({DeltafinBinary(), "run", "--prompt-file", "-"}, options),
                 absl::Minutes(2), {.stdin_text = "It was a dark\nnight"});
  ASSERT_TRUE(piped.ok()) << piped.status();
  EXPECT_EQ(piped->exit_code, 0) << piped->err;
  EXPECT_EQ(piped->out, given.out);
}

// What a run writes to a terminal.
std::string OnATerminal(const Words& environment) {
  const auto run = RunProcess(
      {"/usr/bin/script", "-qec",
       DeltafinBinary() + " run --prompt It --max-new-tokens 1", "/dev/null"},
      absl::Minutes(2), {.environment = environment});
  EXPECT_TRUE(run.ok()) << run.status();
  if (!run.ok()) return "";
  EXPECT_EQ(run->exit_code, 0) << run->out;
  return run->out;
}

TEST(RunTest, ColoursTheLogOfATerminalUnlessToldNotTo) {
  constexpr char kGreen[] = "\x1b[32minfo";
  const std::string coloured = OnATerminal({"TERM=xterm", "NO_COLOR="});
  EXPECT_THAT(coloured, HasSubstr(kGreen));
  for (const Words& environment :
       {Words{"TERM=xterm", "NO_COLOR=1"}, Words{"TERM=dumb", "NO_COLOR="}}) {
    const std::string plain = OnATerminal(environment);
    EXPECT_THAT(plain, AllOf(HasSubstr("info"), Not(HasSubstr(kGreen))));
  }
}

TEST(RunTest, ReportsEverythingInOneJsonObject) {
  const Json report = RunDeltafinJson(Join(kShortRun, {"--stats"}));
  for (const char* key :
       {"prompt_ids", "output_ids", "text", "finish_reason", "usage", "timings",
        "spine", "kernel", "output_sha256", "stats"}) {
    EXPECT_TRUE(report.contains(key)) << key;
  }
  EXPECT_EQ(report["spine"], "cpu-bf16");
  EXPECT_EQ(report["finish_reason"], "length");
  EXPECT_EQ(report["usage"]["completion_tokens"], 6);
  EXPECT_EQ(report["usage"]["prompt_tokens"], report["prompt_ids"].size());
}

TEST(RunTest, DumpsARowForEveryPositionAndHashesIdsAndRows) {
  const TempDir folder;
  const std::string path = folder.File("logits.safetensors");
  const Json report = RunDeltafinJson(Join(kShortRun, {"--dump-logits", path}));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorInfo* logits = (*file)->Find("logits");
  ASSERT_NE(logits, nullptr);
  EXPECT_EQ(logits->dtype, DType::kF32);
  const int64_t rows = report["prompt_ids"].size() + 6 - 1;
  EXPECT_EQ(logits->shape, (std::vector<int64_t>{rows, 4096}));

  std::vector<uint8_t> bytes(logits->bytes);
  ASSERT_TRUE((*file)->Read(*logits, 0, bytes).ok());
  const std::vector<uint32_t> ids = report["output_ids"];
  Sha256 hash;
  hash.Update({reinterpret_cast<const uint8_t*>(ids.data()), ids.size() * 4});
  hash.Update(bytes);
  EXPECT_EQ(report["output_sha256"], hash.FinishHex());

  // The last row chose the last token.
  const float* last =
      reinterpret_cast<const float*>(bytes.data()) + (rows - 1) * 4096;
  EXPECT_EQ(std::max_element(last, last + 4096) - last, ids.back());
}

TEST(RunTest, SamplingDependsOnTheSeedAlone) {
  const Words flags{"run",
                    "--prompt",
                    "It was a dark",
                    "--max-new-tokens",
                    "12",
                    "--temperature",
                    "1",
                    "--top-p",
                    "0.9"};
  const Json first = RunDeltafinJson(Join(flags, {"--seed", "5"}));
  const Json same =
      RunDeltafinJson(Join(flags, {"--seed", "5", "--prefill-chunk", "1"}));
  const Json other = RunDeltafinJson(Join(flags, {"--seed", "6"}));
  EXPECT_EQ(first["output_ids"], same["output_ids"]);
  EXPECT_NE(first["output_ids"], other["output_ids"]);
}

TEST(RunTest, EndsBeforeAStopString) {
  const Json whole = RunDeltafinJson(kShortRun);
  const std::string text = whole["text"];
  const std::string stop = text.substr(text.size() / 2, 3);
  const Json cut = RunDeltafinJson(Join(kShortRun, {"--stop", stop}));
  EXPECT_EQ(cut["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(cut["finish_reason"], "stop_string");
}

TEST(RunTest, ReportsLogprobsThatAgreeWithTheChoice) {
  const Json report = RunDeltafinJson(Join(kShortRun, {"--logprobs", "3"}));
  ASSERT_EQ(report["logprobs"].size(), 6);
  for (size_t i = 0; i < 6; ++i) {
    const Json& token = report["logprobs"][i];
    EXPECT_EQ(token["id"], report["output_ids"][i]);
    ASSERT_EQ(token["top"].size(), 3);
    EXPECT_EQ(token["top"][0]["id"], token["id"]);  // greedy
    EXPECT_LE(token["logprob"], 0);
  }
}

TEST(RunTest, FlagsOverrideTheSettingsFile) {
  const TempDir folder;
  const std::string path = folder.File("coordinator.txtpb");
  Write(path, "threads: 3\nprefill_chunk: 2\n");
  const Json report = RunDeltafinJson(
      Join(kShortRun, {"--stats", "--config", path, "--prefill-chunk", "5"}));
  EXPECT_EQ(report["stats"]["settings"]["threads"], 3);
  EXPECT_EQ(report["stats"]["settings"]["prefill_chunk"], 5);
}

TEST(RunTest, TellsItsVersionAndTeachesByExample) {
  EXPECT_THAT(RunDeltafin({"--version"}).out, HasSubstr("deltafin "));
  for (const char* command :
       {"run", "chat", "serve", "info", "eval", "bench"}) {
    const ProcessResult help = RunDeltafin({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, HasSubstr("Examples:")) << command;
    EXPECT_THAT(help.out, ::testing::Not(HasSubstr("--test-"))) << command;
  }
}

TEST(RunTest, InfoTellsNeedsAndKernels) {
  const Json info = RunDeltafinJson({"info", NanoModelDir()});
  EXPECT_EQ(info["model"]["num_layers"], 13);
  EXPECT_EQ(info["model"]["num_mla_layers"], 4);
  EXPECT_EQ(info["model"]["expert_bytes"], 4896);
  EXPECT_TRUE(info["spines"][0]["fits"]);
  EXPECT_GT(info["spines"][0]["weight_bytes"],
            info["spines"][1]["weight_bytes"]);
  int chosen = 0;
  for (const Json& kernel : info["machine"]["kernels"]) {
    chosen += kernel["chosen"] ? 1 : 0;
  }
  EXPECT_EQ(chosen, 1);
}

TEST(RunTest, BenchComparesTwoSetsOfFlags) {
  const Json report = RunDeltafinJson({"bench", "--ab", "--threads 1",
                                       "--threads 2", "--rounds", "1", "--both",
                                       "--prompt 'It was' --max-new-tokens 4"});
  EXPECT_EQ(report["a"]["runs"], 2);
  EXPECT_EQ(report["b"]["runs"], 2);
  EXPECT_GT(report["a"]["prefill_seconds"]["median"], 0);
  EXPECT_EQ(report["output_sha256"].get<std::string>().size(), 64);
}

TEST(RunTest, BenchRefusesSidesWhoseOutputsDiffer) {
  const ProcessResult result =
      RunDeltafin({"bench", "--ab", "--prompt 'It was'", "--prompt 'She had'",
                   "--rounds", "1", "--both", "--max-new-tokens 4"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("outputs differ"));
}

TEST(RunTest, BenchEndsLikeTheRunThatFailed) {
  const ProcessResult usage =
      RunDeltafin({"bench", "--ab", "--threads 1", "--threads x"});
  EXPECT_EQ(usage.exit_code, 64);
  EXPECT_THAT(usage.err,
              HasSubstr("\"--threads x\": --threads = x is no value"));
  EXPECT_FALSE(usage.err.ends_with("\n\n"));
  const ProcessResult input =
      RunDeltafin({"bench", "--ab", "--model /no/such/model", ""});
  EXPECT_EQ(input.exit_code, 65);
  EXPECT_THAT(input.err, HasSubstr("/no/such/model/config.json"));
}

TEST(RunTest, BenchRefusesWhatCannotBeComparedBeforeItRuns) {
  const ProcessResult help = RunDeltafin({"bench", "--ab", "--help", ""});
  EXPECT_EQ(help.exit_code, 64);
  EXPECT_THAT(help.err, HasSubstr("--ab: --help generates nothing"));
  const TempDir folder;
  const std::string dump = folder.File("logits");
  const ProcessResult one_dump =
      RunDeltafin({"bench", "--ab", "--dump-logits " + dump, ""});
  EXPECT_EQ(one_dump.exit_code, 64);
  EXPECT_THAT(one_dump.err, HasSubstr("--dump-logits is in one side only"));
  EXPECT_FALSE(std::ifstream(dump).good());
}

}  // namespace
}  // namespace deltafin::testing
