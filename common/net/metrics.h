// common/net/metrics.h
//
// Metrics in the Prometheus text format, version 0.0.4: what both programs
// tell a monitoring system. A page is made anew for each question, from
// counters that are kept where things happen; so it names only what is there.
// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/net/http_server.h"
#include "common/net/listen_address.h"

namespace deltafin {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };

// A family: its name ends in the unit (_bytes, _seconds), then _total for
// counters. Every one stands in docs/operations.md.
struct MetricInfo {
  const char* name;
  MetricType type;
  const char* help;
};

using MetricLabels = std::vector<std::pair<std::string_view, std::string>>;

// How long things took, by upper bounds that are the same for all. Thread-safe
// and lock-free.
class DurationHistogram {
 public:
  // Seconds; a last bucket holds what took longer.
  static constexpr std::array<double, 13> kBounds = {
      0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10};

  void Add(absl::Duration duration);
  // Of one bucket, not summed.
  uint64_t count(size_t bucket) const { return counts_[bucket].load(); }
  absl::Duration sum() const { return absl::Nanoseconds(sum_ns_.load()); }

 private:
  std::array<std::atomic<uint64_t>, kBounds.size() + 1> counts_ = {};
  std::atomic<int64_t> sum_ns_{0};
};

// One answer. Thread-compatible.
class MetricsPage {
 public:
  // Names the family even if no sample follows.
  void Declare(const MetricInfo& metric);
  void Add(const MetricInfo& metric, double value,
           const MetricLabels& labels = {});
  // REQUIRES: the type is kHistogram.
  void Add(const MetricInfo& metric, const DurationHistogram& histogram);

  // Families in the order of their first mention.
  std::string text() const;

 private:
  struct Family {
    MetricInfo info;
    std::string samples;  // lines
  };
  Family& FamilyOf(const MetricInfo& metric);

  std::vector<Family> families_;
};

// Where a page of metrics may be: it tells whoever asks, so on this machine
// alone. Errors: INVALID_ARGUMENT for any other address.
absl::StatusOr<ListenAddress> MetricsAddress(const std::string& listen);

// Serves GET /metrics at HOST:PORT of the loopback interface and logs where.
// `fill` is called by several threads at once and must outlive the server.
// Errors: those of MetricsAddress and HttpServer::Start.
absl::StatusOr<std::unique_ptr<HttpServer>> ServeMetrics(
    const std::string& listen, std::function<void(MetricsPage&)> fill);

}  // namespace deltafin
