// What cannot work ends in one clear message and its exit code.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/manifest.h"
#include "common/base/model_spec.h"
#include "tests/integration/deltafin_program.h"
#include "tests/integration/inference_client.h"
#include "tests/testing/fake_expert_node.h"
#include "tests/testing/mini_cluster.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

// Lines that begin with "deltafin: ": the message of the end.
int NumMessages(const std::string& err) {
  std::istringstream lines(err);
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    count += line.starts_with("deltafin: ") ? 1 : 0;
  }
  return count;
}

void ExpectRefused(const Words& arguments, int exit_code,
                   const Words& message_parts) {
  const ProcessResult result = RunDeltafin(arguments, absl::Minutes(2));
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(NumMessages(result.err), 1) << result.err;
  for (const std::string& part : message_parts) {
    EXPECT_THAT(result.err, HasSubstr(part));
  }
}

Words RunModel(const std::string& model) {
  return {"run",    "--model",          model, "--prompt",
          "It was", "--max-new-tokens", "4"};
}

Words RunNano(const Words& more) {
  return Join(RunModel(NanoModelDir()), more);
}

// A k3-nano that each test may damage.
class BadModelTest : public ::testing::Test {
 protected:
  void SetUp() override { CopyNano(model_); }

  void ReplaceInConfig(const std::string& from, const std::string& to) {
    const std::string path = model_ + "/config.json";
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    std::string config = text.str();
    const size_t at = config.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
    std::ofstream(path) << config;
  }

  const TempDir folder_;
  const std::string model_ = folder_.File("model");
  const std::string shard_ = "model-00005-of-000014.safetensors";
};

TEST_F(BadModelTest, MissingFolderIsNamed) {
  ExpectRefused(RunModel(folder_.File("nowhere")), 65, {"nowhere/config.json"});
}

TEST_F(BadModelTest, MissingShardIsNamed) {
  std::filesystem::remove(model_ + "/" + shard_);
  ExpectRefused(RunModel(model_), 65, {shard_});
}

TEST_F(BadModelTest, TruncatedShardIsNamed) {
  std::filesystem::resize_file(model_ + "/" + shard_, 700000);
  ExpectRefused(RunModel(model_), 65, {shard_});
}

TEST_F(BadModelTest, ConfigThatContradictsTheShardsIsRefused) {
  ReplaceInConfig("\"intermediate_size\": 320", "\"intermediate_size\": 352");
  ExpectRefused(RunModel(model_), 65, {"mlp"});
}

TEST_F(BadModelTest, ExpertsThatContradictTheShardsAreRefused) {
  ReplaceInConfig("\"num_experts\": 64", "\"num_experts\": 65");
  ExpectRefused(RunModel(model_), 65, {"config.json", "gate.weight"});
}

TEST_F(BadModelTest, FixedFieldIsNamed) {
  ReplaceInConfig("\"situ\"", "\"silu\"");
  ExpectRefused(RunModel(model_), 65, {"hidden_act", "silu"});
}

TEST_F(BadModelTest, HugeConfigIsRefused) {
  std::ofstream(model_ + "/config.json")
      << std::string(size_t{200} << 20, ' ') << "{}";
  ExpectRefused(RunModel(model_), 65, {"config.json"});
}

TEST_F(BadModelTest, HugeShardHeaderIsRefused) {
  std::fstream shard(model_ + "/" + shard_,
                     std::ios::in | std::ios::out | std::ios::binary);
  const uint64_t length = uint64_t{1} << 60;
  shard.write(reinterpret_cast<const char*>(&length), sizeof(length));
  shard.close();
  ExpectRefused(RunModel(model_), 65, {shard_});
}

TEST(BadFlagsTest, AreUsageErrors) {
  ExpectRefused({"run", "--max-new-tokens", "4"}, 64, {"--prompt"});
  ExpectRefused(RunNano({"--prompt-ids", "1"}), 64, {"exactly one"});
  ExpectRefused(RunNano({"--spine", "fp4"}), 64, {"spine", "fp4"});
  ExpectRefused(RunNano({"--kernel", "mmx"}), 64, {"kernel", "mmx"});
  ExpectRefused(RunNano({"--nodes", "somewhere"}), 64, {"host:port"});
  ExpectRefused(RunNano({"--ram", "much"}), 64, {"ram", "much"});
  ExpectRefused(RunNano({"--temperature", "-1"}), 64, {"--temperature"});
  ExpectRefused(RunNano({"--log-level", "loud"}), 64, {"loud"});
  ExpectRefused(RunNano({"--thinking", "low"}), 64, {"--chat"});
  ExpectRefused(RunNano({"--logprobs", "3"}), 64, {"--logprobs", "--json"});
  ExpectRefused(RunNano({"--ram", "0"}), 64, {"ram: '0'"});
  ExpectRefused({"run", "--prompt", "It", "--max-new-tokens", "-1"}, 64,
                {"--max-new-tokens: Value -1 not in range 0 to 2147483647"});
  ExpectRefused({"rum"}, 64, {"'rum' is no command"});
  EXPECT_EQ(RunDeltafin({"run", "--no-such-flag"}).exit_code, 64);
  EXPECT_EQ(RunDeltafin({}).exit_code, 64);
}

TEST(BadFlagsTest, SamplingValuesNameTheirFlag) {
  const Words bad[] = {{"--seed", "18446744073709551616"},
                       {"--seed", "-1"},
                       {"--presence-penalty", "3"},
                       {"--frequency-penalty", "-3"},
                       {"--repetition-penalty", "101"},
                       {"--temperature", "1e-5"},
                       {"--top-p", "2"},
                       {"--min-p", "nan"},
                       {"--top-k", "99999999999"}};
  for (const Words& flag : bad) ExpectRefused(RunNano(flag), 64, {flag[0]});
}

TEST(BadFlagsTest, EmptyValuesNameTheirFlag) {
  for (const char* flag :
       {"--model", "--nodes", "--spine", "--device", "--kernel", "--ram",
        "--threads", "--seed", "--cache-dir", "--config", "--dump-logits",
        "--stop", "--log-level"}) {
    ExpectRefused({"run", "--prompt", "It was", flag, ""}, 64,
                  {flag, "the value is empty"});
  }
  ExpectRefused({"serve", "--listen", ""}, 64, {"--listen"});
  ExpectRefused({"info", ""}, 64, {"DIR"});
  for (const char* flag : {"--model", "--listen", "--ram", "--cache-dir"}) {
    const auto node =
        RunProcess({DeltafinNodeBinary(), flag, ""}, absl::Minutes(1));
    ASSERT_TRUE(node.ok()) << node.status();
    EXPECT_EQ(node->exit_code, 64);
    EXPECT_THAT(node->err, HasSubstr(flag));
  }
}

TEST(BadFlagsTest, ANodeNeedsMemoryForExperts) {
  const auto node = RunProcess(
      {DeltafinNodeBinary(), "--listen", "127.0.0.1:0", "--ram", "0"},
      absl::Minutes(1));
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->exit_code, 64);
  EXPECT_THAT(node->err, HasSubstr("ram: '0'"));
}

TEST(BadFlagsTest, NodesAreCheckedBeforeAnyConnection) {
  ExpectRefused(RunNano({"--nodes", "127.0.0.1:1,"}), 64, {"host:port"});
  ExpectRefused(RunNano({"--nodes", "127.0.0.1:1, , 127.0.0.1:2"}), 64,
                {"host:port"});
  ExpectRefused(RunNano({"--nodes", "http://127.0.0.1:1"}), 64, {"host:port"});
}

TEST(BadDeviceTest, IsUnavailableWithAdvice) {
  ExpectRefused(RunNano({"--device", "mps"}), 69, {"--device cpu"});
}

TEST(BadPromptTest, IsBadInput) {
  ExpectRefused({"run", "--prompt", ""}, 65, {"prompt is empty"});
  ExpectRefused({"run", "--prompt", "a \xff b"}, 65, {"prompt", "UTF-8"});
  ExpectRefused({"run", "--prompt-file", "/no/such/file"}, 65,
                {"/no/such/file"});
  ExpectRefused({"run", "--prompt-ids", "1,4096"}, 65, {"4096"});
}

TEST(BadPromptTest, InstructionsThatAreNoUtf8AreNamed) {
  ExpectRefused({"run", "--chat", "--prompt", "a", "--system", "b\xff"}, 64,
                {"--system", "byte 1"});
  ExpectRefused({"chat", "--system", "\xff"}, 64, {"--system", "byte 0"});
}

TEST(BadPromptTest, AFailedReplyEndsAChatThatIsPiped) {
  const auto result = RunProcess(
      {DeltafinBinary(), "chat", "--context", "40", "--max-new-tokens", "2"},
      absl::Minutes(2),
      {.stdin_text = std::string(4000, 'a') + "\nnobody reads this\n"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 65) << result->err;
  EXPECT_EQ(NumMessages(result->err), 1) << result->err;
  EXPECT_THAT(result->err, HasSubstr("40"));
}

TEST(BadClusterTest, FlagsOfAClusterNeedOne) {
  const Words given[] = {
      {"--heartbeat-ms", "1000"},    {"--gone-after-ms", "5000"},
      {"--rebalance-after-s", "60"}, {"--copies", "2"},
      {"--copy-budget", "1M"},       {"--own-experts"}};
  for (const Words& flag : given) {
    ExpectRefused(Join({"serve"}, flag), 64, {flag[0], "--cluster"});
  }
}

TEST(BadLimitsTest, AreRefusedWithTheNumbers) {
  ExpectRefused(RunNano({"--context", "40000"}), 65, {"40000", "32768"});
  ExpectRefused({"run", "--prompt-ids", "1,2,3,4,5,6,7,8,9", "--context", "8"},
                65, {"9", "8"});
  ExpectRefused(RunNano({"--ram", "100T"}), 69, {"expert tier", "100 TiB"});
  ExpectRefused(RunNano({"--ram", "1K"}), 65, {"expert"});
}

TEST(BadFileTest, IsNamed) {
  const TempDir folder;
  const std::string path = folder.File("coordinator.txtpb");
  std::ofstream(path) << "threads: 2\nthread_count: 4\n";
  ExpectRefused(RunNano({"--config", path}), 65, {path + ":2", "thread_count"});
  ExpectRefused(RunNano({"--dump-logits", folder.File("no/such/x")}), 65,
                {"no/such/x"});
  ExpectRefused({"eval", "--text", folder.File("text")}, 65,
                {folder.File("text")});
}

TEST(BadPortTest, PortInUseIsNamedBeforeTheModelIsLookedAt) {
  ServeProcess first({});
  ExpectRefused(
      {"serve", "--listen", first.address(), "--model", "/no/such/model"}, 69,
      {first.address()});
  const auto node = RunProcess({DeltafinNodeBinary(), "--listen",
                                first.address(), "--model", "/no/such/model"},
                               absl::Minutes(1));
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->exit_code, 69);
  EXPECT_THAT(node->err, HasSubstr(first.address()));
}

class BadNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto spec = ModelSpec::Load(NanoModelDir());
    const auto manifest = ManifestOfDirectory(NanoModelDir(), "", {});
    ASSERT_TRUE(spec.ok() && manifest.ok());
    options_.shape = spec->expert_shape();
    options_.manifest_digest = manifest->Digest();
  }

  void ExpectNodeRefused(int exit_code, const Words& message_parts) {
    const FakeExpertNode node(options_);
    ExpectRefused(
        RunNano({"--nodes", node.address(), "--layer-deadline-ms", "2000"}),
        exit_code, Join(message_parts, {node.address()}));
  }

  FakeNodeOptions options_;
};

TEST_F(BadNodeTest, RefusalIsPassedOn) {
  options_.refuse_with = 9;  // FAILED_PRECONDITION
  options_.refusal = "closed on Mondays";
  ExpectNodeRefused(69, {"closed on Mondays"});
}

TEST_F(BadNodeTest, AnotherNumericsVersionIsRefused) {
  options_.numerics_version = 2;
  ExpectNodeRefused(69, {"numerics"});
}

TEST_F(BadNodeTest, AnotherWireVersionIsRefused) {
  options_.wire_version = 7;
  ExpectNodeRefused(69, {"wire"});
}

TEST_F(BadNodeTest, AnotherModelIsRefusedByARealNode) {
  const TempDir folder;
  MakeTinyModel(folder.File("tiny"), 3, {});
  const auto cluster =
      MiniCluster::Start({.num_nodes = 1, .model_dir = folder.File("tiny")});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ExpectRefused(RunNano({"--nodes", (*cluster)->addresses()}), 69,
                {(*cluster)->address(0), "model"});
}

TEST_F(BadNodeTest, ANodeNamedTwiceIsRefused) {
  const auto cluster = MiniCluster::Start({.num_nodes = 1});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::string& address = (*cluster)->address(0);
  ExpectRefused(RunNano({"--nodes", address + "," + address}), 65,
                {"the same node", "name each node once"});
}

TEST_F(BadNodeTest, GarbageIsNoAnswer) {
  options_.on_reply = [](const v1::LayerRequest&, v1::LayerReply* reply) {
    reply->set_sums("garbage");
    return ReplyFate::kSend;
  };
  ExpectNodeRefused(65, {"layer"});
}

TEST_F(BadNodeTest, AWrongRowIsNoAnswer) {
  options_.on_reply = [](const v1::LayerRequest&, v1::LayerReply* reply) {
    reply->set_token(0, 12345);
    return ReplyFate::kSend;
  };
  ExpectNodeRefused(65, {"layer"});
}

TEST_F(BadNodeTest, SilenceEndsAtTheDeadline) {
  options_.on_reply = [](const v1::LayerRequest&, v1::LayerReply*) {
    return ReplyFate::kForget;
  };
  ExpectNodeRefused(69, {"layer"});
}

TEST_F(BadNodeTest, ABrokenStreamIsAnError) {
  options_.on_reply = [](const v1::LayerRequest&, v1::LayerReply*) {
    return ReplyFate::kBreakStream;
  };
  ExpectNodeRefused(69, {"layer"});
}

}  // namespace
}  // namespace deltafin::testing
