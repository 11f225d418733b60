#include "tests/testing/lan_cable.h"

#include <algorithm>
#include <charconv>

namespace deltafin::testing {
namespace {

constexpr Nanoseconds kMicrosecond = 1000;
constexpr Nanoseconds kLeastHeldBack = 1000 * kMicrosecond;

bool Happens(double percent, std::mt19937_64& random) {
  return percent > 0 &&
         std::uniform_real_distribution<double>(0, 100)(random) < percent;
}

}  // namespace

bool LanCable::Set(std::string_view text) {
  while (true) {
    const size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return true;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) return false;
    double value = 0;
    const auto [end, error] = std::from_chars(word.data() + equals + 1,
                                              word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() ||
        !(value >= 0 && value < 1e15) ||
        !SetOne(word.substr(0, equals), value)) {
      return false;
    }
  }
}

bool LanCable::SetOne(std::string_view key, double value) {
  if (key == "delay_us") {
    settings_.delay = static_cast<Nanoseconds>(value * kMicrosecond);
  } else if (key == "rate") {
    settings_.bits_per_second = static_cast<int64_t>(value);
  } else if (key == "queue_bytes") {
    settings_.queue_bytes = static_cast<int64_t>(value);
  } else if (key == "loss" && value <= 100) {
    settings_.loss_percent = value;
  } else if (key == "reorder" && value <= 100) {
    settings_.reorder_percent = value;
  } else if (key == "down" && (value == 0 || value == 1)) {
    settings_.is_down = value == 1;
  } else {
    return false;
  }
  return true;
}

std::optional<Nanoseconds> LanCable::Up(Nanoseconds now, size_t size,
                                        std::mt19937_64& random) {
  const std::optional<Nanoseconds> due =
      Carry(now, size, random, &up_free_from_);
  if (due.has_value()) {
    ++up_packets_;
    up_bytes_ += static_cast<int64_t>(size);
  }
  return due;
}

std::optional<Nanoseconds> LanCable::Down(Nanoseconds now, size_t size,
                                          std::mt19937_64& random) {
  return Carry(now, size, random, &down_free_from_);
}

bool LanCable::Arrive(size_t size) {
  if (settings_.is_down) {
    ++num_cut_;
    return false;
  }
  ++down_packets_;
  down_bytes_ += static_cast<int64_t>(size);
  return true;
}

// Waits for those before it, is sent at the cable's rate, then flies.
std::optional<Nanoseconds> LanCable::Carry(Nanoseconds now, size_t size,
                                           std::mt19937_64& random,
                                           Nanoseconds* free_from) {
  if (settings_.is_down) {
    ++num_cut_;
    return std::nullopt;
  }
  if (Happens(settings_.loss_percent, random)) {
    ++num_lost_;
    return std::nullopt;
  }
  Nanoseconds sent = now;
  if (settings_.bits_per_second > 0) {
    const double rate = static_cast<double>(settings_.bits_per_second);
    const Nanoseconds begin = std::max(now, *free_from);
    const double waiting_bytes = static_cast<double>(begin - now) * rate / 8e9;
    if (waiting_bytes > static_cast<double>(settings_.queue_bytes)) {
      ++num_overflowed_;
      return std::nullopt;
    }
    sent = begin +
           static_cast<Nanoseconds>(static_cast<double>(size) * 8e9 / rate);
    *free_from = sent;
  }
  if (Happens(settings_.reorder_percent, random)) {
    sent += std::max(settings_.delay, kLeastHeldBack);
  }
  return sent + settings_.delay;
}

std::string LanCable::Stats() const {
  const auto field = [](const char* name, int64_t value) {
    return std::string(name) + "=" + std::to_string(value);
  };
  return field("up_packets", up_packets_) + " " + field("up_bytes", up_bytes_) +
         " " + field("down_packets", down_packets_) + " " +
         field("down_bytes", down_bytes_) + " " + field("lost", num_lost_) +
         " " + field("overflowed", num_overflowed_) + " " +
         field("cut", num_cut_);
}

}  // namespace deltafin::testing
