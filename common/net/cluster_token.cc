#include "common/net/cluster_token.h"

#include <sys/random.h>

#include <bitset>
#include <cerrno>
#include <optional>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "common/net/secret_file.h"

namespace deltafin {
namespace {

constexpr size_t kMaxTokens = 4;
constexpr uint64_t kMaxFileBytes = 4096;
// 32 random bytes have some 30 different values; under 16 comes once in more
// than 2^60 tokens, and at once with words or keys pressed at will.
constexpr size_t kFewestDistinctBytes = 16;

std::optional<uint8_t> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::optional<ClusterToken> ParseToken(std::string_view digits) {
  ClusterToken token;
  if (digits.size() != 2 * token.size()) return std::nullopt;
  for (size_t i = 0; i < token.size(); ++i) {
    const auto high = HexDigit(digits[2 * i]);
    const auto low = HexDigit(digits[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    token[i] = static_cast<uint8_t>(*high << 4 | *low);
  }
  return token;
}

bool LooksRandom(const ClusterToken& token) {
  std::bitset<256> seen;
  for (const uint8_t byte : token) seen.set(byte);
  return seen.count() >= kFewestDistinctBytes;
}

// Takes the first line off `text`, without its end.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) {
    line.remove_suffix(1);
  }
  return line;
}

absl::Status LineError(int line, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format(
      "line {} {}; `deltafin certs token FILE` makes one", line, what));
}

}  // namespace

absl::StatusOr<std::vector<ClusterToken>> ParseClusterTokens(
    std::string_view text) {
  std::vector<ClusterToken> tokens;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = TakeLine(text);
    if (line.empty() || line.front() == '#') continue;
    const std::optional<ClusterToken> token = ParseToken(line);
    if (!token) {
      return LineError(number, "is no token, which has 64 hexadecimal digits");
    }
    if (!LooksRandom(*token)) {
      return LineError(number, "is no random token, and could be guessed");
    }
    if (tokens.size() == kMaxTokens) {
      return LineError(number, "is one token too many, want at most four");
    }
    tokens.push_back(*token);
  }
  if (tokens.empty()) return LineError(1, "holds no token");
  return tokens;
}

absl::StatusOr<std::vector<ClusterToken>> ReadClusterTokens(
    const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(path, kMaxFileBytes));
  absl::StatusOr<std::vector<ClusterToken>> tokens = ParseClusterTokens(text);
  if (!tokens.ok()) return AddContext(tokens.status(), path);
  return tokens;
}

absl::Status MakeClusterTokenFile(const std::string& path) {
  ClusterToken token;
  if (getrandom(token.data(), token.size(), 0) !=
      static_cast<ssize_t>(token.size())) {
    return ErrnoStatus(errno, "draw random bytes for", path);
  }
  std::string text;
  for (const uint8_t byte : token) text += fmt::format("{:02x}", byte);
  return WriteNewFile(path, text + '\n', kSecretMode);
}

}  // namespace deltafin
