// Input: the bytes of a client's GenerateRequest. What is accepted must be safe
// to submit, and text must never give a control token.

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/frontend/generate_request.h"
#include "coordinator/frontend/text_sink.h"
#include "tests/fuzz/coordinator/chat_tokenizer.h"

using deltafin::ChatTokenizer;
using deltafin::ParsedGenerateRequest;

namespace {

constexpr deltafin::GenerateDefaults kDefaults = {1, 16};

void CheckParsed(const deltafin::v1::GenerateRequest& request,
                 const ParsedGenerateRequest& parsed) {
  const auto& ids = parsed.generation.prompt_ids;
  CHECK(request.prompt_only() == (parsed.generation.max_new_tokens == 0));
  CHECK(
      std::all_of(ids.begin(), ids.end(), [](int32_t id) { return id >= 0; }));
  if (request.prompt_case() == deltafin::v1::GenerateRequest::kText) {
    const int32_t base = ChatTokenizer().vocabulary().base();
    CHECK(std::all_of(ids.begin(), ids.end(),
                      [&](int32_t id) { return id < base; }));
  }
  CHECK(parsed.text.chat.has_value() == request.has_chat());
  const auto sink =
      deltafin::TextSink::Create(ChatTokenizer(), parsed.text, {});
  CHECK(sink.ok() || absl::IsInvalidArgument(sink.status()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  deltafin::v1::GenerateRequest request;
  if (!request.ParseFromArray(bytes, static_cast<int>(size))) return 0;
  const auto parsed =
      deltafin::ParseGenerateRequest(request, ChatTokenizer(), kDefaults);
  if (parsed.ok()) {
    CheckParsed(request, *parsed);
  } else {
    CHECK(absl::IsInvalidArgument(parsed.status()));
    CHECK(!parsed.status().message().empty());
  }
  return 0;
}
