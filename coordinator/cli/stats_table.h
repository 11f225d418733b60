// coordinator/cli/stats_table.h
//
// The table that --stats prints: time per token, steps, nodes. Pure.
#pragma once

#include <string>

#include "coordinator/run_statistics.h"

namespace deltafin {

std::string StatsTable(const RunStatistics& statistics);

}  // namespace deltafin
