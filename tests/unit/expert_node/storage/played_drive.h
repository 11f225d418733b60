// tests/unit/expert_node/storage/played_drive.h
//
// The drive, as the record store of this program sees it: system calls of its
// own in place of the C library's, which fail when they are told to.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace deltafin {

struct PlayedDrive {
  // Reads of this file offset fail with EIO; -1: none does.
  static std::atomic<int64_t> bad_offset;
  // After so many writes one is cut in half and fails with ENOSPC, as do all
  // later ones; -1: none does.
  static std::atomic<int> writes_until_full;

  // Bytes that each read since the last call asked for, in their order.
  static std::vector<int64_t> TakeReads();
};

}  // namespace deltafin
