// tests/testing/lan_box.h
//
// A LAN in a box: places with a network stack each (namespaces of this
// machine), joined by links that tests can slow down, make lossy and pull.
// Thread-compatible. All of it goes away with the object, and what a killed
// test left behind goes with the next one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/testing/network_namespace.h"
#include "tests/testing/process.h"

namespace deltafin::testing {

enum class LanProfile : uint8_t {
  kLan,       // through lan_relay: 1 Gbit/s, 0.3 ms one way, MTU 1500
  kFast,      // virtual Ethernet and a bridge: what the kernel gives
  kLoopback,  // all places in one namespace, 127.0.0.1; links cannot be touched
};

// "lan", "fast", "loopback".
std::string LanProfileName(LanProfile profile);

// One place's cable, each direction; a path has two of them.
struct LanLink {
  absl::Duration delay = absl::Microseconds(150);
  int64_t bits_per_second = 1'000'000'000;
  double loss_percent = 0;
  double reorder_percent = 0;
};

// Of one place's cable, since the beginning.
struct LanCounters {
  int64_t up_packets = 0;  // out of the place
  int64_t up_bytes = 0;
  int64_t down_packets = 0;
  int64_t down_bytes = 0;
  int64_t lost = 0;        // by chance
  int64_t overflowed = 0;  // no room in a queue
  int64_t cut = 0;         // while down
};

class LanBox {
 public:
  // OK where there can be one. Errors: FAILED_PRECONDITION with the reason that
  // a test which is skipped prints.
  static absl::Status Possible() { return NetworkNamespace::Possible(); }

  static absl::StatusOr<std::unique_ptr<LanBox>> Create(LanProfile profile,
                                                        int num_places);
  ~LanBox();
  LanBox(const LanBox&) = delete;
  LanBox& operator=(const LanBox&) = delete;

  LanProfile profile() const { return profile_; }
  // The place's IPv4 address as the others reach it.
  std::string host(int place) const;
  const NetworkNamespace& space(int place) const;

  // Starts a program at a place.
  absl::StatusOr<std::unique_ptr<Process>> Start(
      int place, const std::vector<std::string>& argv,
      ProcessOptions options = {}) const;

  // Replaces the settings of a place's cable. REQUIRES: kLan.
  absl::Status SetLink(int place, const LanLink& link);
  // Pulls the cable, without a word to either end, and puts it back. REQUIRES:
  // not kLoopback.
  absl::Status Down(int place);
  absl::Status Up(int place);
  // REQUIRES: kLan.
  absl::StatusOr<LanCounters> Counters(int place);

 private:
  explicit LanBox(LanProfile profile) : profile_(profile) {}
  absl::Status Build(int num_places);
  absl::Status BuildRelay();
  absl::Status BuildBridge();
  absl::StatusOr<std::string> Ask(const std::string& command);
  absl::Status Command(const std::string& command);
  absl::Status SetDown(int place, bool down);

  const LanProfile profile_;
  std::vector<std::unique_ptr<NetworkNamespace>> spaces_;
  std::unique_ptr<NetworkNamespace> switch_;  // kFast
  std::unique_ptr<Process> relay_;            // kLan
  int control_ = -1;                          // socket to it
};

}  // namespace deltafin::testing
