#include "common/net/metrics.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/net/http_routes.h"

namespace deltafin {
namespace {

constexpr int kMaxConnections = 32;
constexpr size_t kMaxBodyBytes = 1024;  // read and ignored
constexpr absl::Duration kSilence = absl::Seconds(2);
constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

std::string_view NameOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

std::string Escaped(std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// {a="x",b="y"}, or nothing.
std::string LabelText(const MetricLabels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? '{' : ',', name,
                        Escaped(value));
  }
  return text.empty() ? text : text + '}';
}

}  // namespace

void DurationHistogram::Add(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  const auto bucket =
      std::lower_bound(kBounds.begin(), kBounds.end(), seconds) -
      kBounds.begin();
  ++counts_[bucket];
  sum_ns_ += absl::ToInt64Nanoseconds(duration);
}

MetricsPage::Family& MetricsPage::FamilyOf(const MetricInfo& metric) {
  const auto found = std::find_if(
      families_.begin(), families_.end(), [&metric](const Family& family) {
        return std::string_view(family.info.name) == metric.name;
      });
  if (found != families_.end()) return *found;
  return families_.emplace_back(Family{metric, ""});
}

void MetricsPage::Declare(const MetricInfo& metric) { FamilyOf(metric); }

void MetricsPage::Add(const MetricInfo& metric, double value,
                      const MetricLabels& labels) {
  FamilyOf(metric).samples +=
      fmt::format("{}{} {}\n", metric.name, LabelText(labels), value);
}

void MetricsPage::Add(const MetricInfo& metric,
                      const DurationHistogram& histogram) {
  std::string& lines = FamilyOf(metric).samples;
  uint64_t count = 0;
  for (size_t i = 0; i < DurationHistogram::kBounds.size(); ++i) {
    count += histogram.count(i);
    lines += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", metric.name,
                         DurationHistogram::kBounds[i], count);
  }
  count += histogram.count(DurationHistogram::kBounds.size());
  lines += fmt::format("{}_bucket{{le=\"+Inf\"}} {}\n", metric.name, count);
  lines += fmt::format("{}_sum {}\n", metric.name,
                       absl::ToDoubleSeconds(histogram.sum()));
  lines += fmt::format("{}_count {}\n", metric.name, count);
}

std::string MetricsPage::text() const {
  std::string text;
  for (const Family& family : families_) {
    text +=
        fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{3}", family.info.name,
                    family.info.help, NameOf(family.info.type), family.samples);
  }
  return text;
}

absl::StatusOr<ListenAddress> MetricsAddress(const std::string& listen) {
  ASSIGN_OR_RETURN(ListenAddress address, ListenAddress::Parse(listen));
  ASSIGN_OR_RETURN(const bool is_loopback, IsLoopback(address));
  if (is_loopback) return address;
  return absl::InvalidArgumentError(fmt::format(
      "refused to listen on {}: metrics are for this machine alone, with "
      "credentials or without; use 127.0.0.1, ::1 or localhost",
      address.ToString()));
}

absl::StatusOr<std::unique_ptr<HttpServer>> ServeMetrics(
    const std::string& listen, std::function<void(MetricsPage&)> fill) {
  RETURN_IF_ERROR(MetricsAddress(listen).status());
  HttpServerOptions options;
  options.listen = listen;
  options.max_connections = kMaxConnections;
  options.max_body_bytes = kMaxBodyBytes;
  options.header_timeout = kSilence;
  options.body_timeout = kSilence;
  options.write_timeout = kSilence;
  auto server = HttpServer::Start(
      options,
      FixedRoutes({{"/metrics", kContentType, [fill = std::move(fill)] {
                      MetricsPage page;
                      fill(page);
                      return page.text();
                    }}}));
  if (server.ok()) {
    spdlog::info("metrics on http://{}/metrics", (*server)->address());
  }
  return server;
}

}  // namespace deltafin
