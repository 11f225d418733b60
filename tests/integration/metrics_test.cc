// The metrics pages of both programs against docs/operations.md.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "common/base/file_io.h"
#include "tests/integration/inference_client.h"
#include "tests/integration/metrics_page.h"
#include "tests/testing/http_get.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The first group of every match.
std::set<std::string> AllOf(const std::string& pattern,
                            const std::string& text) {
  std::set<std::string> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end;
       ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

std::set<std::string> NamesOf(const std::string& page) {
  return AllOf("# TYPE ([a-z0-9_]+) ", page);
}

// `node_flags` come after those of a node that serves k3-nano.
std::unique_ptr<Process> StartNode(const Words& node_flags) {
  auto node =
      Process::Start(Join({DeltafinNodeBinary(), "--model", NanoModelDir(),
                           "--listen", "127.0.0.1:0", "--threads", "1"},
                          node_flags));
  EXPECT_TRUE(node.ok()) << node.status();
  return *std::move(node);
}

TEST(MetricsTest, EveryNameStandsInTheDocumentationAndEveryNameThereIsServed) {
  const auto node = StartNode({"--metrics", "127.0.0.1:0"});
  const auto address = WaitForAddress(*node);
  ASSERT_TRUE(address.ok()) << address.status();
  ServeProcess server(
      {"--nodes", *address, "--cluster", "--metrics", "127.0.0.1:0"});
  ASSERT_TRUE(Generate(server, IdsRequest({3, 4, 5}, 4)).ok());
  const std::string of_node = ScrapeMetrics(*node);
  const std::string of_coordinator = ScrapeMetrics(server.process());
  std::set<std::string> served = NamesOf(of_node);
  served.merge(NamesOf(of_coordinator));
  const auto docs =
      ReadFile(DELTAFIN_SOURCE_DIR "/docs/operations.md", 1 << 20);
  ASSERT_TRUE(docs.ok()) << docs.status();
  EXPECT_EQ(AllOf("\n\\| `(deltafin_[a-z0-9_]+)`", *docs), served);
  EXPECT_GT(served.size(), 40u);
}

TEST(MetricsTest, CountsWhatARequestDid) {
  const auto node = StartNode({"--metrics", "127.0.0.1:0"});
  const auto address = WaitForAddress(*node);
  ASSERT_TRUE(address.ok()) << address.status();
  ServeProcess server({"--nodes", *address, "--metrics", "127.0.0.1:0"});
  ASSERT_TRUE(Generate(server, IdsRequest({3, 4, 5}, 4)).ok());
  const std::string coordinator = ScrapeMetrics(server.process());
  EXPECT_THAT(coordinator, HasSubstr("deltafin_prefill_tokens_total 3\n"));
  EXPECT_THAT(coordinator, HasSubstr("deltafin_decode_tokens_total 3\n"));
  EXPECT_THAT(
      coordinator,
      HasSubstr("deltafin_finished_requests_total{reason=\"length\"} 1\n"));
  EXPECT_THAT(coordinator,
              HasSubstr("deltafin_cluster_members{state=\"serving\"} 1\n"));
  EXPECT_THAT(coordinator,
              HasSubstr("deltafin_member_answered_parts_total{node=\"" +
                        *address + "\""));
  EXPECT_THAT(coordinator, HasSubstr("deltafin_cluster_health 0\n"));
  const std::string of_node = ScrapeMetrics(*node);
  EXPECT_THAT(of_node,
              Not(HasSubstr("deltafin_node_slices_computed_total 0\n")));
  EXPECT_THAT(of_node, HasSubstr("deltafin_node_refused_requests_total 0\n"));
}

TEST(MetricsTest, StayOnTheLoopbackInterface) {
  const ProcessResult serve = RunDeltafin({"serve", "--metrics", "0.0.0.0:0"});
  EXPECT_EQ(serve.exit_code, 64);
  EXPECT_THAT(serve.err, HasSubstr("--metrics: refused to listen"));
}

}  // namespace
}  // namespace deltafin::testing
