// Work that is saved never shows: guesses that are checked in one step, states
// that later prompts go on from.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/integration/inference_client.h"
#include "tests/integration/metrics_page.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr int kTokens = 80;

// Text of k3-nano that begins to repeat itself.
Json RunWith(const std::string& speculate, const Words& more) {
  return RunDeltafinJson(
      Join({"run", "--prompt-ids", "1063,315,77,1063,315", "--ignore-eos",
            "--max-new-tokens", std::to_string(kTokens), "--stats", "--threads",
            "1", "--speculate", speculate},
           more));
}

void ExpectSameWithGuesses(const Words& flags) {
  const Json off = RunWith("off", flags);
  const Json force = RunWith("force", flags);
  const Json automatic = RunWith("auto", flags);
  EXPECT_EQ(off["output_sha256"], force["output_sha256"]);
  EXPECT_EQ(off["output_sha256"], automatic["output_sha256"]);
  EXPECT_EQ(off["stats"]["drafted_tokens"], 0);
  EXPECT_EQ(off["stats"]["steps"], kTokens);
  const int64_t accepted = force["stats"]["accepted_tokens"];
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, force["stats"]["drafted_tokens"].get<int64_t>());
  EXPECT_EQ(force["stats"]["steps"], kTokens - accepted);
  EXPECT_EQ(force["stats"]["decode_tokens"], kTokens - 1);
}

TEST(SavingsTest, GuessesChangeNoBitOfAGreedyText) {
  ExpectSameWithGuesses({});
}

TEST(SavingsTest, GuessesChangeNoBitOfADrawnText) {
  ExpectSameWithGuesses({"--temperature", "0.6", "--seed", "5"});
}

TEST(SavingsTest, GuessesChangeNoBitOverNodes) {
  const auto nodes =
      MiniCluster::Start({.num_nodes = 2, .flags = {"--threads", "1"}});
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  const Json cluster = RunWith("force", {"--nodes", (*nodes)->addresses()});
  const Json alone = RunWith("off", {});
  EXPECT_EQ(cluster["output_sha256"], alone["output_sha256"]);
  EXPECT_GT(cluster["stats"]["accepted_tokens"], 0);
}

TEST(SavingsTest, UnknownWaysOfGuessingAreRefused) {
  const ProcessResult result =
      RunDeltafin({"run", "--prompt", "Hi", "--speculate", "often"});
  EXPECT_EQ(result.exit_code, 64);
  EXPECT_THAT(result.err, HasSubstr("speculate: 'often'"));
}

v1::GenerateRequest Request(const std::vector<uint32_t>& ids, int index) {
  v1::GenerateRequest request = IdsRequest(ids, 24);
  request.set_ignore_eos(true);
  request.mutable_sampling()->set_temperature(index % 2 == 0 ? 0 : 0.7f);
  request.mutable_sampling()->set_seed(index);
  return request;
}

TEST(SavingsTest, RequestsTogetherGiveWhatEachGivesAlone) {
  ServeProcess server({"--threads", "1", "--prefix-cache", "0"});
  std::vector<std::vector<uint32_t>> alone, together(4);
  const auto request = [](int i, const char* speculate) {
    v1::GenerateRequest request =
        Request({1063, 315, uint32_t(70 + i), 1063, 315}, i);
    request.set_speculate(speculate);
    return request;
  };
  for (int i = 0; i < 4; ++i) {
    const auto generated = Generate(server, request(i, "off"));
    ASSERT_TRUE(generated.ok()) << generated.status();
    alone.push_back(generated->ids);
  }
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      const auto generated = Generate(server, request(i, "force"));
      if (generated.ok()) together[i] = generated->ids;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(together, alone);
}

int64_t Metric(Process& process, const std::string& name) {
  return static_cast<int64_t>(MetricOf(ScrapeMetrics(process), name));
}

struct Conversation {
  std::vector<std::vector<uint32_t>> replies;
  int64_t cached = 0;
  int64_t fresh = 0;  // prompt tokens that no earlier turn had fed
  int64_t prompts = 0;
};

Conversation TenTurns(ServeProcess& server) {
  Conversation conversation;
  std::vector<uint32_t> ids = {1063, 315, 88, 12, 1900, 7};
  int64_t fed = 0;
  for (uint32_t turn = 0; turn < 10; ++turn) {
    const auto generated = Generate(server, Request(ids, turn));
    EXPECT_TRUE(generated.ok()) << generated.status();
    if (!generated.ok()) return conversation;
    const v1::Usage& usage = generated->last.usage();
    conversation.cached += usage.cached_prompt_tokens();
    conversation.prompts += usage.prompt_tokens();
    conversation.fresh += std::ssize(ids) - fed;
    // The last token of the reply was drawn and never fed.
    fed = std::ssize(ids) + std::ssize(generated->ids) - 1;
    ids.insert(ids.end(), generated->ids.begin(), generated->ids.end());
    ids.insert(ids.end(), {400 + turn, 55, 900});
    conversation.replies.push_back(generated->ids);
  }
  return conversation;
}

TEST(SavingsTest, AChatOfTenTurnsComputesWhatIsNewAndGivesTheSame) {
  ServeProcess with({"--threads", "1", "--metrics", "127.0.0.1:0"});
  ServeProcess without({"--threads", "1", "--metrics", "127.0.0.1:0",
                        "--prefix-cache", "0", "--speculate", "off"});
  const Conversation reused = TenTurns(with);
  const Conversation computed = TenTurns(without);
  EXPECT_EQ(reused.replies, computed.replies);
  EXPECT_EQ(reused.replies.size(), 10u);
  EXPECT_EQ(reused.fresh, 6 + 9 * 4);
  EXPECT_EQ(reused.cached, reused.prompts - reused.fresh);
  EXPECT_EQ(computed.cached, 0);
  Process& server = with.process();
  EXPECT_EQ(Metric(server, "deltafin_prefill_tokens_total"), reused.fresh);
  EXPECT_EQ(Metric(server, "deltafin_cached_prompt_tokens_total"),
            reused.cached);
  EXPECT_EQ(Metric(without.process(), "deltafin_prefill_tokens_total"),
            computed.prompts);
}

TEST(SavingsTest, ChatsShareTheirInstructions) {
  ServeProcess server({"--threads", "1"});
  v1::GenerateRequest request;
  v1::ChatMessage* system = request.mutable_chat()->add_messages();
  system->set_role("system");
  system->set_content("You are a lighthouse keeper. Answer in one sentence.");
  v1::ChatMessage* user = request.mutable_chat()->add_messages();
  user->set_role("user");
  request.set_max_new_tokens(4);
  user->set_content("Who are you?");
  const auto first = Generate(server, request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->last.usage().cached_prompt_tokens(), 0u);
  user->set_content("Is there a ship?");
  const auto second = Generate(server, request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(second->last.usage().cached_prompt_tokens(), 12u);
  ServeProcess fresh({"--threads", "1", "--prefix-cache", "0"});
  const auto expected = Generate(fresh, request);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(second->ids, expected->ids);
}

}  // namespace
}  // namespace deltafin::testing
