// The HTTP API over an engine without weights that says what a script says, for
// what no small model can be talked into: calls of tools. Serves until its
// standard input ends.
//
//   scripted_server MODEL_DIR CALLS ANSWER [PREFILL_SECONDS CLOCK_RATE]
//
// MODEL_DIR: the tokenizer's. CALLS: the answer to a conversation without
// results of tools, in the spelling of the chat format; ANSWER: to one with.
// PREFILL_SECONDS: what reading a prompt takes, by the API's clock, which runs
// CLOCK_RATE times as fast as the machine's.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/base/check.h"
#include "common/net/http_server.h"
#include "coordinator/engine/forward_pass.h"
#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/chat_tokens.h"
#include "coordinator/frontend/openai_service.h"
#include "coordinator/frontend/tokenizer.h"
#include "spdlog/fmt/fmt.h"
#include "tests/client/slow_prefill.h"
#include "tests/testing/scripted_spine.h"

namespace deltafin::testing {
namespace {

constexpr int kVocabSize = 4096;
constexpr int64_t kContext = 8192;
constexpr int kSparseLayers = 3;  // of FakeSpine

struct Options {
  std::string model_dir;
  std::string calls;
  std::string answer;
  absl::Duration prefill;
  double clock_rate = 1;
};

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

// What a test wants to know, in the form of docs/operations.md.
std::string MetricsText(const Scheduler& scheduler, const Clock& clock) {
  const SchedulerStats stats = scheduler.stats();
  return fmt::format(
      "deltafin_running_requests {}\n"
      "deltafin_finished_requests_total{{reason=\"cancelled\"}} {}\n"
      "scripted_clock_seconds {}\n",
      stats.requests_running, stats.finished.cancelled,
      absl::ToDoubleSeconds(clock.Elapsed()));
}

// Until standard input ends.
void Listen(const HttpRouter& router) {
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
}

int Serve(const Options& options) {
  const auto tokenizer = Tokenizer::Load(options.model_dir, kVocabSize);
  CHECK(tokenizer.ok(), "a tokenizer");
  const Script script(**tokenizer, options.calls, options.answer);
  const FastClock clock(options.clock_rate);
  FakeSpineOptions fake;
  fake.vocab_size = kVocabSize;
  fake.eos_token_id = *(*tokenizer)->ControlId(kEndOfMessageToken);
  ScriptedSpine spine(fake, [&script](std::span<const int32_t> ids) {
    return script.Next(ids);
  });
  SlowPrefill experts(spine.spec().expert_shape(),
                      options.prefill / kSparseLayers, clock);
  ForwardPass forward(spine, experts);
  SchedulerOptions scheduling;
  scheduling.context_tokens = kContext;
  Scheduler scheduler(scheduling, forward);
  CHECK(scheduler.Start().ok(), "an engine");
  OpenAiServiceOptions service_options;
  service_options.model = {"k3-nano", "fp_script", absl::UnixEpoch(), kContext,
                           0};
  service_options.eos_token_id = fake.eos_token_id;
  service_options.is_serving = [] { return true; };
  service_options.metrics = [&] { return MetricsText(scheduler, clock); };
  service_options.clock = &clock;
  service_options.pulse = absl::Milliseconds(2);
  OpenAiService service(service_options, **tokenizer, scheduler);
  HttpRouter router{RouterOptions()};
  service.AddRoutes(router);
  Listen(router);
  return 0;
}

}  // namespace
}  // namespace deltafin::testing

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) return 64;
  deltafin::testing::Options options = {argv[1], argv[2], argv[3], {}, 1};
  if (argc == 6) {
    options.prefill = absl::Seconds(std::atof(argv[4]));
    options.clock_rate = std::atof(argv[5]);
  }
  return deltafin::testing::Serve(options);
}
