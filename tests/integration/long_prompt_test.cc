// A prompt of 2,048 tokens over four nodes, and its cancellation half-way.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "absl/strings/str_join.h"
#include "tests/integration/inference_client.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

constexpr int kPromptTokens = 2048;
constexpr int kMoeLayers = 12;
constexpr int kNodes = 4;
// Messages hold at most 128 tokens, and every node has work for nearly every
// token.
constexpr uint64_t kMaxRequestsOfLayer = kNodes * kPromptTokens / 128;

std::vector<uint32_t> LongPrompt() {
  std::vector<uint32_t> ids(kPromptTokens);
  for (int i = 0; i < kPromptTokens; ++i) ids[i] = (97 * i + i / 7) % 3840;
  return ids;
}

struct Totals {
  uint64_t layer_requests = 0;
  uint64_t queue_depth = 0;
  uint64_t slices = 0;
};

Totals Sum(const MiniCluster& cluster) {
  Totals totals;
  const auto all = cluster.AllCounters();
  EXPECT_TRUE(all.ok()) << all.status();
  if (!all.ok()) return totals;
  for (const v1::NodeCounters& counters : *all) {
    totals.layer_requests += counters.layer_requests();
    totals.queue_depth += counters.queue_depth();
    totals.slices += counters.slices_computed();
  }
  return totals;
}

// Polls until `accept` or for a minute.
template <typename Accept>
bool Await(const MiniCluster& cluster, Accept accept) {
  for (int i = 0; i < 3000; ++i) {
    if (accept(Sum(cluster))) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

TEST(LongPromptTest, FourNodesAnswerLikeOneProcess) {
  const auto cluster = MiniCluster::Start({.num_nodes = kNodes});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const Words flags{"run",
                    "--prompt-ids",
                    absl::StrJoin(LongPrompt(), ","),
                    "--max-new-tokens",
                    "3",
                    "--ignore-eos",
                    "--stats"};
  const nlohmann::json nodes =
      RunDeltafinJson(Join(flags, {"--nodes", (*cluster)->addresses()}));
  const nlohmann::json alone = RunDeltafinJson(flags);
  EXPECT_EQ(nodes["output_sha256"], alone["output_sha256"]);
  EXPECT_EQ(nodes["output_ids"].size(), 3);
  EXPECT_EQ(Sum(**cluster).slices, (kPromptTokens + 2) * kMoeLayers * 4u);
}

TEST(LongPromptTest, CancelFreesTheNodesWithinOneLayer) {
  MiniClusterOptions options{.num_nodes = kNodes};
  // Slow enough that the prompt takes seconds.
  options.flags = {"--test-reply-delay-us", "20000:1"};
  const auto cluster = MiniCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ServeProcess server({"--nodes", (*cluster)->addresses(), "--prefill-chunk",
                       std::to_string(kPromptTokens)});

  grpc::ClientContext context;
  const auto reader =
      server.stub().Generate(&context, IdsRequest(LongPrompt(), 4));
  ASSERT_TRUE(Await(**cluster, [](const Totals& totals) {
    return totals.layer_requests > kMaxRequestsOfLayer;
  }));
  context.TryCancel();
  v1::GenerateReply reply;
  EXPECT_FALSE(reader->Read(&reply));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  const Totals at_cancel = Sum(**cluster);

  ASSERT_TRUE(Await(
      **cluster, [](const Totals& totals) { return totals.queue_depth == 0; }));
  const Totals freed = Sum(**cluster);
  // What was under way, and at most one layer that began before the word came.
  EXPECT_LE(freed.layer_requests,
            at_cancel.layer_requests + 2 * kMaxRequestsOfLayer);
  EXPECT_LT(freed.slices, uint64_t{kPromptTokens} * kMoeLayers * 4);

  // The nodes are free for others.
  const absl::StatusOr<Generated> next =
      Generate(server, IdsRequest({5, 6, 7}, 2));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->ids.size(), 2u);
}

}  // namespace
}  // namespace deltafin::testing
