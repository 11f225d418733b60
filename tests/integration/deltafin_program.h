// tests/integration/deltafin_program.h
//
// Runs the deltafin program and reads what it prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/testing/process.h"

namespace deltafin::testing {

using Words = std::vector<std::string>;

// `words` and then `more`.
Words Join(Words words, const Words& more);

// Runs deltafin to its end. Fails the calling test when it does not end.
ProcessResult RunDeltafin(const Words& arguments,
                          absl::Duration timeout = absl::Minutes(4));

// The same with --json added; fails the calling test unless the exit code is 0
// and standard output is one JSON object.
nlohmann::json RunDeltafinJson(const Words& arguments,
                               absl::Duration timeout = absl::Minutes(4));

nlohmann::json ReadJsonFile(const std::string& path);

// A copy of k3-nano, as released, that a test may write to.
void CopyNano(const std::string& to);

// A small random model of the same family, made by the reference's generator;
// `set` holds "key=value" words.
void MakeTinyModel(const std::string& to, int seed, const Words& set);

}  // namespace deltafin::testing
