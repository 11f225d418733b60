// tests/unit/expert_node/storage/hub_test.h
//
// An emulated repository of one large file of random bytes and small ones, and
// a source that reads it with little patience.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "expert_node/storage/hub_source.h"
#include "tests/testing/hub_emulator.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {

using testing::FaultKind;
using testing::HubEmulator;
using testing::HubEmulatorOptions;
using testing::HubFault;

inline constexpr char kLarge[] = "model-00001-of-000001.safetensors";
inline constexpr char kSmall[] = "config.json";
inline constexpr size_t kLargeBytes = 1 << 20;

class HubTest : public ::testing::Test {
 protected:
  HubTest() {
    setenv("no_proxy", "*", 1);
    std::mt19937 random(7);
    large_.resize(kLargeBytes);
    for (uint8_t& byte : large_) byte = static_cast<uint8_t>(random());
    std::ofstream(folder_.File(kLarge), std::ios::binary)
        .write(reinterpret_cast<const char*>(large_.data()), kLargeBytes);
    std::ofstream(folder_.File(kSmall)) << "{\"a\": 1}";
    emulator_options_.directory = folder_.path();
    options_.model = {"deltafin/k3-nano", "main"};
    options_.retry.first_backoff = absl::Milliseconds(2);
    options_.retry.longest_backoff = absl::Milliseconds(10);
    options_.retry.max_failures = 4;
    options_.http.stall_timeout = absl::Milliseconds(500);
    options_.http.stall_bytes_per_second = 1000;
  }

  void StartEmulator() {
    auto emulator = HubEmulator::Start(emulator_options_);
    ASSERT_TRUE(emulator.ok()) << emulator.status();
    emulator_ = *std::move(emulator);
    options_.access.endpoint = emulator_->endpoint();
  }

  absl::Status Connect() {
    auto source = HubSource::Create(options_);
    if (source.ok()) source_ = *std::move(source);
    return source.status();
  }

  void Start() {
    StartEmulator();
    const absl::Status connected = Connect();
    ASSERT_TRUE(connected.ok()) << connected;
  }

  void Inject(FaultKind kind, int times = 1) {
    HubFault fault;
    fault.kind = kind;
    fault.times = times;
    emulator_->Inject(fault);
  }

  // Reads and compares.
  absl::Status ReadLarge(uint64_t offset, size_t bytes) {
    std::vector<uint8_t> out(bytes);
    const absl::Status status = source_->Read(kLarge, offset, out);
    if (status.ok()) {
      EXPECT_TRUE(std::equal(out.begin(), out.end(),
                             large_.begin() + static_cast<int64_t>(offset)));
    }
    return status;
  }

  TempDir folder_;
  std::vector<uint8_t> large_;
  HubEmulatorOptions emulator_options_;
  HubOptions options_;
  std::unique_ptr<HubEmulator> emulator_;
  std::unique_ptr<HubSource> source_;
};

}  // namespace deltafin
