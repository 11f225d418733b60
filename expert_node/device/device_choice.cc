#include "expert_node/device/device_choice.h"

#include <algorithm>
#include <charconv>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr std::string_view kCuda = "cuda";
constexpr int kMaxCard = 63;

absl::Status Refuse(std::string_view text) {
  return absl::InvalidArgumentError(
      fmt::format("'{}': want cpu, cuda, cuda:N or cuda:N,M,..., each card "
                  "once, 0 to {}",
                  text, kMaxCard));
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseDevice(std::string_view text) {
  if (text.empty() || text == "cpu") return std::vector<int>();
  if (text == kCuda) return std::vector<int>{0};
  if (!text.starts_with(kCuda) || text[kCuda.size()] != ':') {
    return Refuse(text);
  }
  std::vector<int> cards;
  const char* next = text.data() + kCuda.size();
  const char* const end = text.data() + text.size();
  while (next != end) {  // at ':' or ','
    int card = -1;
    const auto [stop, error] = std::from_chars(next + 1, end, card);
    if (error != std::errc() || card < 0 || card > kMaxCard ||
        (stop != end && *stop != ',') ||
        std::find(cards.begin(), cards.end(), card) != cards.end()) {
      return Refuse(text);
    }
    cards.push_back(card);
    next = stop;
  }
  return cards;
}

}  // namespace deltafin
