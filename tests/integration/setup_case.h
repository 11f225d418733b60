// tests/integration/setup_case.h
//
// Installs k3-nano with the program and looks at what came out.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/integration/deltafin_program.h"
#include "tests/testing/hub_emulator.h"

namespace deltafin::testing {

// The words after `setup` that name where from.
Words FromNano();
Words FromHub();

// An emulated Hub that has k3-nano as deltafin/k3-nano.
std::unique_ptr<HubEmulator> StartNanoHub(
    HubEmulatorOptions::Tls tls = HubEmulatorOptions::Tls::kNone);
// What makes programs use it, with a token that must not leave it; by https
// they do not know its authority yet.
ProcessOptions ReachHub(const HubEmulator& hub);

// Runs deltafin with an environment; fails the test when it does not end.
ProcessResult RunWith(const Words& arguments, const ProcessOptions& options);

// The SHA-256 of every file in a folder by its name there, but of locks and,
// where it is said, DIR/source.
enum class SourceFileIs { kPart, kIgnored };
std::map<std::string, std::string> DigestsIn(const std::string& dir,
                                             SourceFileIs source);

// output_sha256 of one fixed generation.
std::string OutputOf(const std::string& model,
                     const ProcessOptions& options = {});

// Installs, kills the installation at `num_kills` random moments, lets it go on
// and compares it with an undisturbed one.
void CheckKilledSetup(int num_kills, uint32_t seed);

}  // namespace deltafin::testing
