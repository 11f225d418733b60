// Input: the value of a header field, a URL, or lines of a header. What is
// accepted is in range, and no redirect loses encryption.

#include <algorithm>
#include <string_view>

#include "common/base/check.h"
#include "expert_node/storage/http_answer.h"
#include "expert_node/storage/http_fields.h"
#include "expert_node/storage/http_url.h"

namespace {

void CheckAnswer(std::string_view text) {
  deltafin::HttpAnswer answer;
  answer.AddHeaderLine("HTTP/1.1 206 Partial Content\r\n");
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    answer.AddHeaderLine(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  uint8_t out[5];
  const deltafin::WantedRange wanted = {5, out, 20};
  if (!deltafin::CheckRangeAnswer(wanted, answer).ok()) return;
  const auto range = deltafin::ParseContentRange(answer.field("content-range"));
  CHECK(answer.status == 206 && range.has_value());
  CHECK(range->first == 5 && range->last == 9 && range->total == 20);
}

void CheckRedirect(std::string_view text) {
  const auto base = deltafin::ParseHttpUrl("https://hub.example/a/b?c");
  const auto target = deltafin::RedirectTarget(*base, text);
  if (!target.ok()) return;
  CHECK(target->https && target->port >= 1 && target->port <= 65535);
  const auto again = deltafin::ParseHttpUrl(target->text());
  CHECK(again.ok() && deltafin::SameOrigin(*again, *target));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto range = deltafin::ParseContentRange(text)) {
    CHECK(range->first <= range->last && range->last < range->total);
  }
  if (const auto wait = deltafin::ParseRetryAfter(text, absl::UnixEpoch())) {
    CHECK(*wait >= absl::ZeroDuration());
  }
  CHECK(deltafin::NextLink(text).size() <= size);
  CHECK(deltafin::NormalizedEtag(text).size() <= size);
  CheckAnswer(text);
  CheckRedirect(text);
  return 0;
}
