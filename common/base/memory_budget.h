// common/base/memory_budget.h
//
// How much RAM this process may use, sizes as people write them, and a budget
// that is refused with its numbers when it does not fit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin {

// Where the kernel tells about memory; tests point it elsewhere.
struct MemorySources {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// Bytes this process can still take without swapping: the machine's
// MemAvailable, or less where a cgroup (v1 or v2) sets a limit, a hard or a
// soft one; page cache inside the limit counts as available. Errors:
// UNAVAILABLE when the kernel does not say.
absl::StatusOr<uint64_t> AvailableMemory(const MemorySources& sources = {});
// The same, below zero by what a group has beyond its limit.
absl::StatusOr<int64_t> MemoryHeadroom(const MemorySources& sources = {});

// "1234", "512K", "512M", "8G", "1.5T", each also with "B" or "iB"; powers of
// 1,024. Errors: INVALID_ARGUMENT with the text.
absl::StatusOr<uint64_t> ParseByteSize(std::string_view text);

// "17.5 GiB", "512 B": three significant digits.
std::string FormatByteSize(uint64_t bytes);

// Named parts that together must fit into what is available.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t available_bytes)
      : available_bytes_(available_bytes) {}

  void Add(std::string name, uint64_t bytes);
  uint64_t total() const;
  uint64_t available() const { return available_bytes_; }

  // One line a part, then the total and what is available.
  std::string Table() const;
  // Errors: RESOURCE_EXHAUSTED with the table when the total does not fit.
  absl::Status Check() const;

 private:
  struct Part {
    std::string name;
    uint64_t bytes = 0;
  };
  uint64_t available_bytes_ = 0;
  std::vector<Part> parts_;
};

}  // namespace deltafin
