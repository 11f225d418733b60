// The loss of k3-nano on its validation text, against the reference's.

#include <gtest/gtest.h>

#include "tests/integration/deltafin_program.h"
#include "tests/testing/mini_cluster.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;

Words EvalFlags(const std::string& model, const std::string& window = "4096",
                const std::string& max_windows = "1") {
  return {"eval",
          "--model",
          model,
          "--text",
          NanoModelDir() + "/eval/validation.txt",
          "--window",
          window,
          "--max-windows",
          max_windows,
          "--log-level",
          "warn"};
}

TEST(EvalTest, LossEqualsTheReference) {
  const Json golden =
      ReadJsonFile(NanoModelDir() + "/eval/golden.json")["nll_window"];
  const Json report = RunDeltafinJson(EvalFlags(NanoModelDir()));
  EXPECT_EQ(report["spine"], "cpu-bf16");
  EXPECT_EQ(report["tokens"], golden["predicted_tokens"]);
  EXPECT_NEAR(report["mean_nll"], golden["float32"]["mean_nll"], 1e-3);
  EXPECT_NEAR(report["bits_per_byte"], golden["bits_per_byte_f64"], 1e-3);
}

TEST(EvalTest, Int8LiesCloseToBf16) {
  const TempDir folder;
  const std::string model = folder.File("model");  // receives the int8 files
  CopyNano(model);
  const Json report = RunDeltafinJson(
      Join(EvalFlags(model), {"--spine", "int8", "--against", "bf16"}));
  EXPECT_EQ(report["spine"], "cpu-int8");
  EXPECT_EQ(report["against"]["spine"], "cpu-bf16");
  EXPECT_NEAR(report["mean_nll"], report["against"]["mean_nll"], 0.01);
  EXPECT_NE(report["mean_nll"], report["against"]["mean_nll"]);
  EXPECT_GT(report["agreement"]["top1"], 0.9);
  EXPECT_GT(report["agreement"]["top5"], 0.9);
  EXPECT_GT(report["agreement"]["max_logit_shift"], 0);
  EXPECT_LT(report["agreement"]["mean_logit_shift"], 0.5);
}

TEST(EvalTest, ASpineAgreesWithItself) {
  const Json report = RunDeltafinJson(
      Join(EvalFlags(NanoModelDir(), "64", "3"), {"--against", "bf16"}));
  EXPECT_EQ(report["tokens"], 3 * 63);
  EXPECT_EQ(report["agreement"]["top1"], 1);
  EXPECT_EQ(report["agreement"]["max_logit_shift"], 0);
}

TEST(EvalTest, AnEndpointOfOurOwnHasOurLoss) {
  auto started = Process::Start({DeltafinBinary(), "serve", "--listen",
                                 "127.0.0.1:0", "--http", "127.0.0.1:0"});
  ASSERT_TRUE(started.ok()) << started.status();
  const std::unique_ptr<Process> server = *std::move(started);
  ASSERT_TRUE(WaitForAddress(*server).ok());
  const std::string out = server->out();
  const size_t at = out.find("http://");
  const std::string url = out.substr(at, out.find('\n', at) - at);
  const Words compare = {"--compare", url, "--compare-model", "k3-nano"};
  const Words flags = Join(EvalFlags(NanoModelDir(), "256", "2"), compare);
  const Json same = RunDeltafinJson(Join(flags, {"--compare-as", "ids"}));
  EXPECT_EQ(same["against"]["tokens"], same["tokens"]);
  EXPECT_EQ(same["tokens"], 510);
  EXPECT_NEAR(same["against"]["mean_nll"], same["mean_nll"], 1e-6);
  EXPECT_NEAR(same["against"]["bits_per_byte"], same["bits_per_byte"], 1e-6);
  // As text the first token of a window is given, too.
  const Json text = RunDeltafinJson(flags);
  EXPECT_EQ(text["against"]["tokens"], 508);
  EXPECT_NEAR(text["against"]["mean_nll"], text["mean_nll"], 0.1);
  const ProcessResult wrong =
      RunDeltafin(Join(EvalFlags(NanoModelDir(), "256", "2"),
                       {"--compare", url, "--compare-model", "gpt"}));
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_NE(wrong.err.find("there is no 'gpt' here"), std::string::npos);
}

}  // namespace
}  // namespace deltafin::testing
