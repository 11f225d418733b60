// Input: one byte that chooses an endpoint, then the body of a request. What is
// accepted must be safe to submit, and what is refused must say so in JSON.

#include <algorithm>
#include <string>

#include "common/base/check.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_request.h"
#include "coordinator/frontend/openai_text.h"
#include "coordinator/frontend/python_json.h"
#include "tests/fuzz/coordinator/chat_tokenizer.h"

using deltafin::ChatTokenizer;
using deltafin::OpenAiModel;
using deltafin::OpenAiRequest;

namespace {

const OpenAiModel& Model() {
  static const auto& model =
      *new OpenAiModel{"m", "fp", absl::UnixEpoch(), 4096, 1};
  return model;
}

void CheckJson(const std::string& json) {
  std::string where;
  CHECK(deltafin::ParseStrictJson(json, where).ok(), "an answer is JSON");
}

void CheckRefusal(const absl::Status& status) {
  const int http_status = deltafin::ToOpenAiError(status).http_status;
  CHECK(http_status == 400 || http_status == 404);
  CheckJson(deltafin::OpenAiErrorJson(status));
}

void CheckAccepted(const OpenAiRequest& request) {
  const int32_t size = ChatTokenizer().vocabulary().size();
  CHECK(!request.prompts.empty());
  CHECK(request.prompts.size() * request.num_choices <= deltafin::kMaxChoices);
  for (const std::vector<int32_t>& prompt : request.prompts) {
    CHECK(!prompt.empty() && std::ssize(prompt) <= Model().context_tokens);
    CHECK(std::all_of(prompt.begin(), prompt.end(),
                      [size](int32_t id) { return id >= 0 && id < size; }));
  }
  CHECK(request.generation.max_new_tokens >= 0);
  CHECK(request.timeout > absl::ZeroDuration());
  CHECK(deltafin::TextSink::Create(ChatTokenizer(), request.text, {}).ok());
}

using Parser = absl::StatusOr<OpenAiRequest> (*)(std::string_view,
                                                 const deltafin::Tokenizer&,
                                                 const OpenAiModel&);

void ReadRequest(Parser parse, std::string_view body) {
  const auto request = parse(body, ChatTokenizer(), Model());
  if (request.ok()) {
    CheckAccepted(*request);
  } else {
    CheckRefusal(request.status());
  }
}

using Converter = absl::StatusOr<std::string> (*)(std::string_view,
                                                  const deltafin::Tokenizer&,
                                                  const OpenAiModel&);

void Convert(Converter convert, std::string_view body) {
  const auto answer = convert(body, ChatTokenizer(), Model());
  if (answer.ok()) {
    CheckJson(*answer);
  } else {
    CheckRefusal(answer.status());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(bytes) + 1,
                              size - 1);
  switch (bytes[0] % 8) {  // of the digits 0 to 7, themselves
    case 0:
      ReadRequest(deltafin::ParseChatCompletion, body);
      break;
    case 1:
      ReadRequest(deltafin::ParseCompletion, body);
      break;
    case 2:
      Convert(deltafin::TokenizeJson, body);
      break;
    case 3:
      Convert(deltafin::DetokenizeJson, body);
      break;
    default:
      ReadRequest(deltafin::ParseResponseRequest, body);
  }
  return 0;
}
