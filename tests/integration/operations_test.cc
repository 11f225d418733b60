// What people do to a cluster from the command line, with real processes.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "tests/integration/joined_cluster.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr uint32_t kTokens = 300;

// deltafin with words of a command that asks the coordinator.
ProcessResult Ask(JoinedCluster& cluster, const Words& words) {
  return RunDeltafin(Join(words, {"--coordinator", cluster.server().address()}),
                     absl::Minutes(1));
}

Json AskJson(JoinedCluster& cluster, const Words& words, int exit_code = 0) {
  const ProcessResult result = Ask(cluster, Join(words, {"--json"}));
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << result.out;
  return json;
}

// Generates, and calls `at_tenth` when ten tokens have come. The last reply.
v1::GenerateReply GenerateIds(ServeProcess& server, Json* ids,
                              const std::function<void()>& at_tenth = nullptr) {
  v1::GenerateRequest request = IdsRequest({3, 14, 159, 265}, kTokens);
  request.set_ignore_eos(true);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(3));
  const auto reader = server.stub().Generate(&context, request);
  *ids = Json::array();
  v1::GenerateReply reply;
  while (reader->Read(&reply)) {
    if (reply.has_token()) ids->push_back(reply.id());
    if (ids->size() == 10 && reply.has_token() && at_tenth) at_tenth();
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return reply;
}

std::string AddressOf(JoinedCluster& cluster, const std::string& name) {
  const std::string out = cluster.node(name).out();
  const std::string words = "listening on ";
  const size_t begin = out.find(words);
  EXPECT_NE(begin, std::string::npos) << out;
  if (begin == std::string::npos) return "";
  const size_t end = out.find_first_of("\n ", begin + words.size());
  return out.substr(begin + words.size(), end - begin - words.size());
}

TEST(OperationsTest, HealthEndsWithZeroOneOrTwo) {
  JoinedCluster cluster;
  cluster.StartNode("a");
  cluster.StartNode("b");
  cluster.WaitForServing(2);
  const ProcessResult healthy = Ask(cluster, {"health"});
  EXPECT_EQ(healthy.exit_code, 0) << healthy.err;
  EXPECT_THAT(healthy.out, HasSubstr(AddressOf(cluster, "a")));
  EXPECT_THAT(healthy.out, HasSubstr(AddressOf(cluster, "b")));
  cluster.KillNode("a");
  cluster.WaitForHealth([](const v1::ClusterHealth& health) {
    return health.verdict() == v1::ClusterHealth::DEGRADED;
  });
  const Json degraded = AskJson(cluster, {"health"}, 1);
  EXPECT_EQ(degraded["verdict"], "degraded");
  EXPECT_EQ(degraded["nodes"].size(), 2u);
  cluster.KillNode("b");
  cluster.WaitForHealth([](const v1::ClusterHealth& health) {
    return health.verdict() == v1::ClusterHealth::DOWN;
  });
  const ProcessResult down = Ask(cluster, {"health"});
  EXPECT_EQ(down.exit_code, 2);
  EXPECT_THAT(down.err, HasSubstr("the cluster is down"));
}

TEST(OperationsTest, HealthWatchesUntilASignalAndSaysWhoDoesNotAnswer) {
  JoinedCluster cluster;
  const auto watch =
      Process::Start({DeltafinBinary(), "health", "--watch", "0.1",
                      "--coordinator", cluster.server().address()});
  ASSERT_TRUE(watch.ok()) << watch.status();
  const absl::Status twice = (*watch)->WaitForOutput(
      [](std::string_view out, std::string_view) {
        const size_t first = out.find("cluster ");
        return first != out.npos && out.find("cluster ", first + 1) != out.npos;
      },
      absl::Minutes(1));
  EXPECT_TRUE(twice.ok()) << twice;
  EXPECT_EQ((*watch)->out().find('\x1b'), std::string::npos);
  (*watch)->Signal(SIGINT);
  const auto code = (*watch)->Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0) << (*watch)->err();

  const ProcessResult nobody =
      RunDeltafin({"health", "--coordinator", "127.0.0.1:1"});
  EXPECT_EQ(nobody.exit_code, 69);
  EXPECT_THAT(nobody.err, HasSubstr("start `deltafin serve`"));
}

TEST(OperationsTest, ADrainedNodeCanBeKilledAndComesBackDrained) {
  const Json undisturbed =
      RunDeltafinJson({"run", "--prompt-ids", "3,14,159,265",
                       "--max-new-tokens", std::to_string(kTokens),
                       "--ignore-eos", "--log-level", "warn"})["output_ids"];
  ASSERT_EQ(undisturbed.size(), kTokens);
  JoinedCluster cluster;
  cluster.StartNode("a");
  // Holds the generation back until after the drain.
  cluster.StartNode("b", {"--test-reply-delay-us", "5000:1"});
  cluster.WaitForServing(2);
  const std::string address = AddressOf(cluster, "a");
  Json ids;
  GenerateIds(cluster.server(), &ids, [&] {
    const ProcessResult drain = Ask(cluster, {"drain", address});
    EXPECT_EQ(drain.exit_code, 0) << drain.err;
    EXPECT_THAT(drain.out, HasSubstr("may be switched off"));
    cluster.KillNode("a");
    EXPECT_THAT(Ask(cluster, {"explain"}).err,
                HasSubstr("no request has finished yet"));
  });
  EXPECT_EQ(ids, undisturbed);
  const auto has_state = [](std::string_view state) {
    return [state](const v1::ClusterHealth& health) {
      return health.nodes_size() == 2 &&
             std::any_of(health.nodes().begin(), health.nodes().end(),
                         [state](const v1::NodeHealth& node) {
                           return node.state() == state;
                         });
    };
  };
  cluster.WaitForHealth(has_state("gone"));
  cluster.StartNode("a");
  const v1::ClusterHealth back = cluster.WaitForHealth(has_state("draining"));
  for (const v1::NodeHealth& node : back.nodes()) {
    if (node.state() != "draining") continue;
    EXPECT_EQ(node.share(), 0);
    const ProcessResult undo =
        Ask(cluster, {"drain", node.node_id().substr(0, 12), "--undo"});
    EXPECT_EQ(undo.exit_code, 0) << undo.err;
  }
  cluster.WaitForServing(2);
}

TEST(OperationsTest, TheOnlyOwnerIsNotDrainedNorIsWhoIsUnknown) {
  JoinedCluster cluster;
  cluster.StartNode("a");
  const std::string id = cluster.WaitForServing(1).nodes(0).node_id();
  const ProcessResult refused = Ask(cluster, {"drain", id});
  EXPECT_EQ(refused.exit_code, 69);
  EXPECT_THAT(refused.err, HasSubstr("start another node"));
  EXPECT_EQ(cluster.Health().nodes(0).state(), "serving");
  const ProcessResult unknown = Ask(cluster, {"drain", "nobody"});
  EXPECT_EQ(unknown.exit_code, 65);
  EXPECT_THAT(unknown.err, HasSubstr(id));
  EXPECT_EQ(Ask(cluster, {"drain", id, "--undo", "--deadline", "1"}).exit_code,
            64);
}

TEST(OperationsTest, ADrainLastsOverARestartOfTheCoordinator) {
  JoinedCluster cluster;
  cluster.StartNode("a");
  cluster.StartNode("b");
  cluster.WaitForServing(2);
  const std::string address = AddressOf(cluster, "a");
  EXPECT_EQ(Ask(cluster, {"drain", address}).exit_code, 0);
  cluster.RestartServer();
  const v1::ClusterHealth health =
      cluster.WaitForHealth([](const v1::ClusterHealth& now) {
        const auto count = [&](std::string_view state) {
          return std::count_if(now.nodes().begin(), now.nodes().end(),
                               [&](const v1::NodeHealth& node) {
                                 return node.state() == state;
                               });
        };
        return count("draining") == 1 && count("serving") == 1;
      });
  for (const v1::NodeHealth& node : health.nodes()) {
    EXPECT_EQ(node.state(), node.name() == address ? "draining" : "serving");
  }
  EXPECT_EQ(Ask(cluster, {"drain", address, "--undo"}).exit_code, 0);
  cluster.WaitForServing(2);
}

TEST(OperationsTest, PlacementPlansWithoutChangingAnything) {
  JoinedCluster cluster({"--copy-budget", "1M"});
  cluster.StartNode("a");
  cluster.StartNode("b");
  cluster.WaitForServing(2);
  const std::string address = AddressOf(cluster, "a");
  const Json plan =
      AskJson(cluster, {"placement", "plan", "--without", address});
  ASSERT_EQ(plan["shares"].size(), 2u);
  for (const Json& share : plan["shares"]) {
    EXPECT_EQ(share["share"], share["node"] == address ? 0.0 : 1.0);
    EXPECT_EQ(share["slices_missing"], 0);  // both have the whole model
  }
  EXPECT_EQ(plan["copy_bytes_per_second"], 1 << 20);
  EXPECT_GT(plan["slice_bytes"], 0);
  EXPECT_THAT(Ask(cluster, {"placement", "plan", "--copies", "2"}).out,
              HasSubstr("with 2 copies of everything 0 slices"));
  EXPECT_EQ(Ask(cluster, {"placement", "plan", "--without", "no"}).exit_code,
            65);
  EXPECT_EQ(Ask(cluster, {"placement", "plan", "--copies", "17"}).exit_code,
            64);
  EXPECT_EQ(cluster.Health().verdict(), v1::ClusterHealth::HEALTHY);
}

TEST(OperationsTest, PlacementShowsSharesAndOneExpert) {
  JoinedCluster cluster;
  cluster.StartNode("a");
  cluster.StartNode("b");
  cluster.WaitForServing(2);
  const Json all = AskJson(cluster, {"placement", "show"});
  ASSERT_EQ(all["shares"].size(), 2u);
  // In proportion to what was measured, which is not the same for both.
  const double first = all["shares"][0]["share"];
  const double second = all["shares"][1]["share"];
  EXPECT_GT(std::min(first, second), 0.0);
  EXPECT_DOUBLE_EQ(first + second, 1.0);
  EXPECT_GT(all["shares"][0]["slices_wanted"], 0);
  EXPECT_EQ(all["shares"][0]["slices_missing"], 0);
  EXPECT_TRUE(all["runs"].empty());
  const Json one =
      AskJson(cluster, {"placement", "show", "--layer", "1", "--expert", "0"});
  EXPECT_FALSE(one["runs"].empty());
  EXPECT_EQ(Ask(cluster, {"placement", "show", "--layer", "1"}).exit_code, 64);
  EXPECT_EQ(
      Ask(cluster, {"placement", "show", "--layer", "9999", "--expert", "0"})
          .exit_code,
      65);
}

TEST(OperationsTest, ExplainNamesTheNodeThatWasWaitedFor) {
  JoinedCluster cluster;
  cluster.StartNode("quick");
  cluster.StartNode("held-back", {"--test-reply-delay-us", "100000:1"});
  cluster.WaitForServing(2);
  EXPECT_EQ(Ask(cluster, {"explain"}).exit_code, 65);
  Json ids;
  const v1::GenerateReply last = GenerateIds(cluster.server(), &ids);
  ASSERT_GT(last.request_id(), 0u);
  const Json explanation =
      AskJson(cluster, {"explain", std::to_string(last.request_id())});
  EXPECT_EQ(explanation["request"], last.request_id());
  EXPECT_EQ(explanation["tokens"], kTokens);
  const Json& prompt = explanation["prompt"];
  ASSERT_FALSE(prompt["layers"].empty());
  EXPECT_EQ(prompt["layers"][0]["node"], AddressOf(cluster, "held-back"));
  EXPECT_GT(prompt["layers"][0]["link_seconds"],
            prompt["layers"][0]["compute_seconds"]);
  EXPECT_GT(explanation["slowest"]["token"], 0);
  EXPECT_EQ(AskJson(cluster, {"explain"})["request"], last.request_id());
  const ProcessResult unknown = Ask(cluster, {"explain", "12345"});
  EXPECT_EQ(unknown.exit_code, 65);
  EXPECT_THAT(unknown.err, HasSubstr(std::to_string(last.request_id())));
}

}  // namespace
}  // namespace deltafin::testing
