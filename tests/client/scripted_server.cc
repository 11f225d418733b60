// The HTTP API over an engine without weights that says what a script says, for
// what no small model can be talked into: calls of tools. Serves until its
// standard input ends.
//
//   scripted_server MODEL_DIR CALLS ANSWER
//
// MODEL_DIR: the tokenizer's. CALLS: the answer to a conversation without
// results of tools, in the spelling of the chat format; ANSWER: to one with.

#include <cstdio>
#include <string>

#include "common/base/check.h"
#include "common/net/http_server.h"
#include "coordinator/engine/forward_pass.h"
#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/chat_tokens.h"
#include "coordinator/frontend/openai_service.h"
#include "coordinator/frontend/tokenizer.h"
#include "tests/testing/fake_routed_experts.h"
#include "tests/testing/scripted_spine.h"

namespace deltafin::testing {
namespace {

constexpr int kVocabSize = 4096;
constexpr int64_t kContext = 8192;

// What stands in a script for the ids that a model would write.
std::vector<int32_t> Ids(const Tokenizer& tokenizer, const std::string& text) {
  auto ids = tokenizer.Encode(text, SegmentKind::kControl);
  CHECK(ids.ok(), "a script is text");
  return *ids;
}

// Continues the answer that the last message of `ids` has begun.
class Script {
 public:
  Script(const Tokenizer& tokenizer, const std::string& calls,
         const std::string& answer)
      : tokenizer_(tokenizer),
        tokens_(*ChatTokens::Find(tokenizer)),
        calls_(Ids(tokenizer, calls)),
        answer_(Ids(tokenizer, answer)) {}

  int32_t Next(std::span<const int32_t> ids) const {
    const size_t begin = AnswerBegin(ids);
    const std::string prompt = *tokenizer_.Decode(ids.first(begin));
    const bool has_result = prompt.find("role=\"tool\"") != std::string::npos;
    const std::vector<int32_t>& script = has_result ? answer_ : calls_;
    const size_t written = ids.size() - begin;
    return written < script.size() ? script[written] : tokens_.end_of_message;
  }

 private:
  // After the generation prompt: `<|open|>message ...<|sep|><|open|>response
  // <|sep|>`, the last one of them.
  size_t AnswerBegin(std::span<const int32_t> ids) const {
    for (size_t at = ids.size(); at-- > 0;) {
      if (ids[at] != tokens_.open) continue;
      const std::string rest = *tokenizer_.Decode(ids.subspan(at));
      if (!rest.starts_with("<|open|>message")) continue;
      int seps = 0;
      for (size_t i = at; i < ids.size(); ++i) {
        if (ids[i] == tokens_.sep && ++seps == 2) return i + 1;
      }
    }
    return ids.size();
  }

  const Tokenizer& tokenizer_;
  const ChatTokens tokens_;
  const std::vector<int32_t> calls_;
  const std::vector<int32_t> answer_;
};

int Serve(const std::string& model_dir, const std::string& calls,
          const std::string& answer) {
  const auto tokenizer = Tokenizer::Load(model_dir, kVocabSize);
  CHECK(tokenizer.ok(), "a tokenizer");
  const Script script(**tokenizer, calls, answer);
  FakeSpineOptions fake;
  fake.vocab_size = kVocabSize;
  fake.eos_token_id = *(*tokenizer)->ControlId(kEndOfMessageToken);
  ScriptedSpine spine(fake, [&script](std::span<const int32_t> ids) {
    return script.Next(ids);
  });
  FakeRoutedExperts experts(spine.spec().expert_shape());
  ForwardPass forward(spine, experts);
  SchedulerOptions scheduling;
  scheduling.context_tokens = kContext;
  Scheduler scheduler(scheduling, forward);
  CHECK(scheduler.Start().ok(), "an engine");
  OpenAiServiceOptions options;
  options.model = {"k3-nano", "fp_script", absl::UnixEpoch(), kContext, 0};
  options.eos_token_id = fake.eos_token_id;
  options.is_serving = [] { return true; };
  options.metrics = [] { return std::string(); };
  OpenAiService service(options, **tokenizer, scheduler);
  HttpRouter router{RouterOptions()};
  service.AddRoutes(router);
  HttpServerOptions listening;
  listening.listen = "127.0.0.1:0";
  const auto server = HttpServer::Start(
      listening,
      [&router](HttpRequest request, std::shared_ptr<HttpReply> reply) {
        router.Handle(std::move(request), std::move(reply));
      });
  CHECK(server.ok(), "a server");
  std::printf("HTTP API at http://%s/v1\nlistening on nothing else\n",
              (*server)->address().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  (*server)->Shutdown(absl::ZeroDuration());
  return 0;
}

}  // namespace
}  // namespace deltafin::testing

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  return deltafin::testing::Serve(argv[1], argv[2], argv[3]);
}
