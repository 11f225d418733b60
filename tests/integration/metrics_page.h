// tests/integration/metrics_page.h
//
// Reads the metrics page of a running program.
#pragma once

#include <string>

#include "tests/testing/process.h"

namespace deltafin::testing {

// What the process serves where its log says that metrics are. Fails the
// calling test where it does not.
std::string ScrapeMetrics(Process& process);

// The value of a metric without labels; fails the calling test without it.
double MetricOf(const std::string& page, const std::string& name);

}  // namespace deltafin::testing
