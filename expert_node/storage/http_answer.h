// expert_node/storage/http_answer.h
//
// The header of an HTTP answer, and whether it is that of the wanted bytes.
// Pure; thread-compatible.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace deltafin {

// [offset, offset + out.size()) of a file of file_bytes.
struct WantedRange {
  uint64_t offset = 0;
  std::span<uint8_t> out;
  uint64_t file_bytes = 0;

  bool whole_file() const { return out.size() == file_bytes; }
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> fields;  // by lower-case name, last wins
  std::string text;                           // body that was not stored

  // Empty where the field is absent.
  std::string_view field(const std::string& name) const;

  // Takes one line of a header as it came. A status line starts a new answer.
  void AddHeaderLine(std::string_view line);
};

// Whether the body of a 200 or 206 is exactly `wanted`: a 206 with exactly its
// Content-Range (and length, where one is given), unencoded, in one part; or a
// 200 where the whole file is wanted. Errors: DATA_LOSS saying what came
// instead.
absl::Status CheckRangeAnswer(const WantedRange& wanted,
                              const HttpAnswer& answer);

}  // namespace deltafin
