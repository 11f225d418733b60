// bench/fio.h
//
// fio, where it is installed, as the measure of a drive.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace deltafin::bench {

// fio and its version, as it names itself; nullopt where it is not installed.
std::optional<std::string> FioVersion();

// Bytes per second at which `num_jobs` threads of fio read the first `bytes` of
// the file past the page cache, each its own part, `request_bytes` at a time.
// They do so three times, as the first requests also fill fio's memory with
// pages. nullopt where fio gave no figure. REQUIRES: fio is installed; the
// parts are whole requests.
std::optional<double> FioReadRate(const std::string& path, size_t bytes,
                                  size_t request_bytes, int num_jobs);

}  // namespace deltafin::bench
