// tests/testing/lan_cable.h
//
// What a cable does to packets: when one comes out at the other end, or that it
// does not. Pure: time and chance are given. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

namespace deltafin::testing {

using Nanoseconds = int64_t;

// Of each direction of a cable.
struct LanCableSettings {
  Nanoseconds delay = 0;
  int64_t bits_per_second = 0;    // 0: any
  int64_t queue_bytes = 1 << 20;  // that wait for their turn; more are lost
  double loss_percent = 0;
  // Packets that are held back for another delay, at least a millisecond.
  double reorder_percent = 0;
  bool is_down = false;  // everything is lost, also what is under way
};

class LanCable {
 public:
  // "delay_us=300 loss=10": changes what is named. False: a bad key or value;
  // those before it are set.
  bool Set(std::string_view text);

  // When a packet that is sent at `now` is at the other end; nullopt: lost.
  // Up: to the switch, Down: from it.
  std::optional<Nanoseconds> Up(Nanoseconds now, size_t size,
                                std::mt19937_64& random);
  std::optional<Nanoseconds> Down(Nanoseconds now, size_t size,
                                  std::mt19937_64& random);
  // A packet comes out at the lower end. False: the cable is down.
  bool Arrive(size_t size);
  Nanoseconds delay() const { return settings_.delay; }
  // The receiver had no room.
  void CountOverflow() { ++num_overflowed_; }

  // "up_packets=.. ...": since the beginning.
  std::string Stats() const;

 private:
  std::optional<Nanoseconds> Carry(Nanoseconds now, size_t size,
                                   std::mt19937_64& random,
                                   Nanoseconds* free_from);
  bool SetOne(std::string_view key, double value);

  LanCableSettings settings_;
  Nanoseconds up_free_from_ = 0;
  Nanoseconds down_free_from_ = 0;
  int64_t up_packets_ = 0;
  int64_t up_bytes_ = 0;
  int64_t down_packets_ = 0;
  int64_t down_bytes_ = 0;
  int64_t num_lost_ = 0;        // by chance
  int64_t num_overflowed_ = 0;  // no room in a queue
  int64_t num_cut_ = 0;         // while down
};

}  // namespace deltafin::testing
