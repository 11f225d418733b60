#include "coordinator/frontend/api_keys.h"

#include <algorithm>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/net/secret_file.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;
constexpr size_t kMinKeyLength = 16;
constexpr std::string_view kScheme = "bearer ";

std::string DigestOf(std::string_view key) {
  return Sha256Hex(
      std::span(reinterpret_cast<const uint8_t*>(key.data()), key.size()));
}

bool IsKey(std::string_view text) {
  return text.size() >= kMinKeyLength &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); });
}

// In a time that depends on the lengths alone. REQUIRES: equal lengths.
bool AreEqual(std::string_view a, std::string_view b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace

absl::StatusOr<ApiKeys> ApiKeys::Load(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(path, kMaxFileBytes));
  ApiKeys keys;
  int line_number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    const absl::string_view key = absl::StripAsciiWhitespace(line);
    if (key.empty() || key.front() == '#') continue;
    if (!IsKey({key.data(), key.size()})) {
      return absl::InvalidArgumentError(fmt::format(
          "{}:{}: a key has at least {} printable characters and no space",
          path, line_number, kMinKeyLength));
    }
    keys.digests_.push_back(DigestOf({key.data(), key.size()}));
  }
  if (keys.empty()) {
    return absl::InvalidArgumentError(path + ": no key in it");
  }
  return keys;
}

bool ApiKeys::Accept(std::string_view authorization) const {
  if (empty()) return true;
  const std::string scheme = absl::AsciiStrToLower(
      std::string(authorization.substr(0, kScheme.size())));
  if (scheme != kScheme) return false;
  const std::string shown = DigestOf(authorization.substr(kScheme.size()));
  bool is_known = false;
  for (const std::string& digest : digests_) {
    is_known |= AreEqual(shown, digest);
  }
  return is_known;
}

}  // namespace deltafin
