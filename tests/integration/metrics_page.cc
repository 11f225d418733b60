#include "tests/integration/metrics_page.h"

#include <gtest/gtest.h>

#include <regex>
#include <string_view>

#include "absl/time/time.h"
#include "tests/testing/http_get.h"

namespace deltafin::testing {

std::string ScrapeMetrics(Process& process) {
  const std::regex where("metrics on http://127\\.0\\.0\\.1:([0-9]+)/metrics");
  std::smatch match;
  std::string log;
  const absl::Status logged = process.WaitForOutput(
      [&](std::string_view, std::string_view err) {
        log = err;
        return std::regex_search(log, match, where);
      },
      absl::Minutes(1));
  EXPECT_TRUE(logged.ok()) << logged;
  if (!logged.ok()) return "";
  const auto page = HttpGet(std::stoi(match[1]), "/metrics");
  EXPECT_TRUE(page.ok()) << page.status();
  return page.value_or("");
}

double MetricOf(const std::string& page, const std::string& name) {
  std::smatch match;
  const bool found =
      std::regex_search(page, match, std::regex("\n" + name + " ([^\n]+)\n"));
  EXPECT_TRUE(found) << name << " is not on the page:\n" << page;
  return found ? std::stod(match[1]) : -1;
}

}  // namespace deltafin::testing
