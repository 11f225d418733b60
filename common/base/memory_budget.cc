#include "common/base/memory_budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// The number in a file that holds nothing else; "max" and a missing file are
// nullopt.
std::optional<uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// The number after `key` in a file of "key number" or "key: number" lines.
std::optional<uint64_t> NumberAfter(const std::string& path,
                                    const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    uint64_t value = 0;
    if (words >> word && word == key && words >> value) return value;
  }
  return std::nullopt;
}

// Beyond what any machine has; limits may be up to 2^64.
constexpr uint64_t kMostBytes = uint64_t{1} << 62;

// The names a cgroup version uses.
struct CgroupVersion {
  const char* mount;  // below the cgroup root
  const char* limit;
  const char* soft_limit;  // beyond it the group is slowed down
  const char* usage;
  const char* inactive_key;
  const char* active_key;
};
constexpr CgroupVersion kVersion1 = {"/memory",
                                     "/memory.limit_in_bytes",
                                     "",
                                     "/memory.usage_in_bytes",
                                     "total_inactive_file",
                                     "total_active_file"};
constexpr CgroupVersion kVersion2 = {"",
                                     "/memory.max",
                                     "/memory.high",
                                     "/memory.current",
                                     "inactive_file",
                                     "active_file"};

// What one group still allows, below zero where it has more than that, or
// nullopt when it sets no limit.
std::optional<int64_t> HeadroomInGroup(const std::string& group,
                                       const CgroupVersion& version) {
  auto limit = NumberIn(group + version.limit);
  const auto soft_limit = NumberIn(group + version.soft_limit);
  if (soft_limit && (!limit || *soft_limit < *limit)) limit = soft_limit;
  const auto usage = NumberIn(group + version.usage);
  if (!limit || !usage) return std::nullopt;
  const std::string stat = group + "/memory.stat";
  const uint64_t cache = NumberAfter(stat, version.inactive_key).value_or(0) +
                         NumberAfter(stat, version.active_key).value_or(0);
  const uint64_t held = *usage > cache ? *usage - cache : 0;
  return static_cast<int64_t>(std::min(*limit, kMostBytes)) -
         static_cast<int64_t>(std::min(held, kMostBytes));
}

// The tightest of a group and its ancestors; a container may see its own group
// as the root, so the root is asked too.
int64_t HeadroomInHierarchy(const std::string& root, std::string group,
                            const CgroupVersion& version) {
  int64_t headroom = kMostBytes;
  while (true) {
    const auto here = HeadroomInGroup(root + version.mount + group, version);
    if (here) headroom = std::min(headroom, *here);
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return headroom;
    group.resize(slash);
  }
}

// Lines are "id:controllers:path"; version 2 has no controllers.
int64_t HeadroomInCgroups(const MemorySources& sources) {
  int64_t headroom = kMostBytes;
  std::ifstream file(sources.proc + "/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second =
        first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers =
        fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      headroom = std::min(
          headroom, HeadroomInHierarchy(sources.cgroup, group, kVersion2));
    } else if (controllers.find(",memory,") != std::string::npos) {
      headroom = std::min(
          headroom, HeadroomInHierarchy(sources.cgroup, group, kVersion1));
    }
  }
  return headroom;
}

// The power of 1,024 that a unit stands for, or -1.
int UnitPower(std::string_view unit) {
  static constexpr std::string_view kLetters = "KMGTP";
  if (unit.empty() || unit == "B") return 0;
  const char letter = unit[0] >= 'a' ? unit[0] - 'a' + 'A' : unit[0];
  const size_t power = kLetters.find(letter);
  const std::string_view rest = unit.substr(1);
  if (power == std::string_view::npos) return -1;
  if (!rest.empty() && rest != "B" && rest != "iB") return -1;
  return static_cast<int>(power) + 1;
}

}  // namespace

absl::StatusOr<int64_t> MemoryHeadroom(const MemorySources& sources) {
  const std::string meminfo = sources.proc + "/meminfo";
  const auto kilobytes = NumberAfter(meminfo, "MemAvailable:");
  if (!kilobytes) {
    return absl::UnavailableError(meminfo + " has no MemAvailable line");
  }
  const uint64_t machine = std::min(*kilobytes, kMostBytes / 1024) * 1024;
  return std::min(static_cast<int64_t>(machine), HeadroomInCgroups(sources));
}

absl::StatusOr<uint64_t> AvailableMemory(const MemorySources& sources) {
  const absl::StatusOr<int64_t> headroom = MemoryHeadroom(sources);
  if (!headroom.ok()) return headroom.status();
  return static_cast<uint64_t>(std::max<int64_t>(*headroom, 0));
}

absl::StatusOr<uint64_t> ParseByteSize(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] =
      std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const int power =
      error == std::errc() ? UnitPower(std::string_view(rest, end - rest)) : -1;
  if (power < 0 || !(value >= 0)) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no size; write bytes or a number with K, M, G or T, such as "
        "512M or 8G",
        text));
  }
  const double bytes = std::ldexp(value, 10 * power);
  if (!(bytes < 0x1p63)) {
    return absl::InvalidArgumentError(fmt::format("'{}' is too large", text));
  }
  return static_cast<uint64_t>(bytes);
}

std::string FormatByteSize(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B",   "KiB", "MiB", "GiB",
                                           "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 999.5) {
    value /= 1024;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

void MemoryBudget::Add(std::string name, uint64_t bytes) {
  parts_.push_back({std::move(name), bytes});
}

uint64_t MemoryBudget::total() const {
  uint64_t total = 0;
  for (const Part& part : parts_) {
    total = std::numeric_limits<uint64_t>::max() - total < part.bytes
                ? std::numeric_limits<uint64_t>::max()
                : total + part.bytes;
  }
  return total;
}

std::string MemoryBudget::Table() const {
  std::string table;
  const auto add_line = [&table](std::string_view name, uint64_t bytes) {
    table += fmt::format("  {:<28} {:>10}\n", name, FormatByteSize(bytes));
  };
  for (const Part& part : parts_) add_line(part.name, part.bytes);
  add_line("total", total());
  add_line("available", available_bytes_);
  return table;
}

absl::Status MemoryBudget::Check() const {
  if (total() <= available_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "needs {} of RAM, {} are available:\n{}", FormatByteSize(total()),
      FormatByteSize(available_bytes_), Table()));
}

}  // namespace deltafin
