#include "common/net/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/net/listen_address.h"
#include "tests/testing/http_get.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using testing::HttpExchange;
using testing::HttpGet;
using ::testing::StartsWith;

constexpr MetricInfo kReads = {"reads_total", MetricType::kCounter, "Reads"};
constexpr MetricInfo kRoom = {"room_bytes", MetricType::kGauge, "Room"};
constexpr MetricInfo kTime = {"work_seconds", MetricType::kHistogram, "Work"};

TEST(MetricsPageTest, WritesFamiliesTogetherWhateverTheOrderOfSamples) {
  MetricsPage page;
  page.Add(kReads, 3, {{"node", "a"}});
  page.Add(kRoom, 0.5);
  page.Add(kReads, 1e15, {{"node", "b"}, {"kind", "x"}});
  EXPECT_EQ(page.text(),
            "# HELP reads_total Reads\n# TYPE reads_total counter\n"
            "reads_total{node=\"a\"} 3\n"
            "reads_total{node=\"b\",kind=\"x\"} 1000000000000000\n"
            "# HELP room_bytes Room\n# TYPE room_bytes gauge\n"
            "room_bytes 0.5\n");
}

TEST(MetricsPageTest, EscapesLabelValues) {
  MetricsPage page;
  page.Add(kRoom, 1, {{"name", "a\"b\\c\nd"}});
  EXPECT_THAT(page.text(), HasSubstr("room_bytes{name=\"a\\\"b\\\\c\\nd\"} 1"));
}

TEST(MetricsPageTest, NamesADeclaredFamilyWithoutSamples) {
  MetricsPage page;
  page.Declare(kReads);
  EXPECT_EQ(page.text(),
            "# HELP reads_total Reads\n# TYPE reads_total counter\n");
}

TEST(MetricsPageTest, SumsTheBucketsOfAHistogram) {
  DurationHistogram histogram;
  histogram.Add(absl::Milliseconds(1));  // the bound itself is within
  histogram.Add(absl::Microseconds(1500));
  histogram.Add(absl::Seconds(100));
  MetricsPage page;
  page.Add(kTime, histogram);
  const std::string text = page.text();
  EXPECT_THAT(text, HasSubstr("work_seconds_bucket{le=\"0.001\"} 1\n"
                              "work_seconds_bucket{le=\"0.002\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("work_seconds_bucket{le=\"10\"} 2\n"
                              "work_seconds_bucket{le=\"+Inf\"} 3\n"
                              "work_seconds_sum 100.0025\n"
                              "work_seconds_count 3\n"));
}

std::unique_ptr<HttpServer> Serve(int* port) {
  auto server = ServeMetrics("127.0.0.1:0",
                             [](MetricsPage& page) { page.Add(kReads, 7); });
  EXPECT_TRUE(server.ok()) << server.status();
  *port = ListenAddress::Parse((*server)->address())->port;
  return *std::move(server);
}

TEST(ServeMetricsTest, AnswersItsPathAndNoOther) {
  int port = 0;
  const auto server = Serve(&port);
  const auto page = HttpGet(port, "/metrics");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(*page, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(*page, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(*page, HasSubstr("reads_total 7\n"));
  EXPECT_THAT(*HttpGet(port, "/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(*HttpGet(port, "/" + std::string(40'000, 'x')),
              StartsWith("HTTP/1.1 414"));
  EXPECT_THAT(*HttpExchange(port, "no such thing\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
}

TEST(ServeMetricsTest, RefusesAPortInUseAndOtherInterfaces) {
  int port = 0;
  const auto server = Serve(&port);
  const auto fill = [](MetricsPage&) {};
  EXPECT_EQ(ServeMetrics(server->address(), fill).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(ServeMetrics("0.0.0.0:0", fill).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace deltafin
