#include "common/net/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deltafin {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace deltafin
