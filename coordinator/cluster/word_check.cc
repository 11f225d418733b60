#include "coordinator/cluster/word_check.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t kMaxNodeIdBytes = 128;
constexpr size_t kMaxWordBytes = 64;  // a SHA-256 in hex, too

}  // namespace

absl::Status CheckWord(std::string_view field, std::string_view word,
                       size_t least, size_t most) {
  const bool printable = std::all_of(
      word.begin(), word.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (printable && word.size() >= least && word.size() <= most) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "{} of {} bytes: want {} to {} printable ASCII characters without blanks",
      field, word.size(), least, most));
}

absl::Status CheckIdentityWords(const v1::HandshakeReply& identity) {
  RETURN_IF_ERROR(
      CheckWord("identity.node_id", identity.node_id(), 0, kMaxNodeIdBytes));
  RETURN_IF_ERROR(CheckWord("identity.manifest_digest",
                            identity.manifest_digest(), 0, kMaxWordBytes));
  RETURN_IF_ERROR(
      CheckWord("identity.kernel", identity.kernel(), 0, kMaxWordBytes));
  return CheckWord("identity.version", identity.version(), 0, kMaxWordBytes);
}

}  // namespace deltafin
