// Clients that ask for a stream over a real socket and then stop reading.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "common/net/http_server.h"
#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/openai_service.h"
#include "spdlog/fmt/fmt.h"
#include "tests/testing/fake_routed_experts.h"
#include "tests/testing/fake_spine.h"
#include "tests/testing/http_socket.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

using testing::HttpAnswer;
using testing::HttpSocket;

// No generation reaches it before its test is over.
constexpr int64_t kEndless = int64_t{1} << 30;
constexpr int32_t kEosId = 3842;
constexpr int kNumChoices = 4;

struct StallLimits {
  size_t max_unread_bytes = 0;
  absl::Duration write_timeout;
};

testing::FakeSpineOptions NanoSized() {
  testing::FakeSpineOptions options;
  options.vocab_size = 4096;
  options.eos_token_id = kEosId;
  return options;
}

// The API with as many places for sequences, on a free port.
class StallServer {
 public:
  StallServer(const StallLimits& limits, int num_places)
      : scheduler_({.context_tokens = kEndless, .max_sequences = num_places},
                   forward_) {
    EXPECT_TRUE(scheduler_.Start().ok());
    OpenAiServiceOptions options;
    options.model = {"nano", "fp_1", absl::UnixEpoch(), kEndless, 3840};
    options.eos_token_id = kEosId;
    options.is_serving = [] { return true; };
    options.metrics = [] { return std::string(); };
    service_ =
        std::make_unique<OpenAiService>(options, NanoTokenizer(), scheduler_);
    service_->AddRoutes(router_);
    HttpServerOptions http;
    http.listen = "127.0.0.1:0";
    http.max_unread_bytes = limits.max_unread_bytes;
    http.write_timeout = limits.write_timeout;
    auto server = HttpServer::Start(
        http, [this](HttpRequest request, std::shared_ptr<HttpReply> reply) {
          router_.Handle(std::move(request), std::move(reply));
        });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~StallServer() {
    server_->Shutdown(absl::ZeroDuration());
    service_.reset();
    scheduler_.Shutdown();
  }

  int port() const {
    const std::string& address = server_->address();
    return std::stoi(address.substr(address.rfind(':') + 1));
  }
  FinishCounts finished() const { return scheduler_.stats().finished; }
  int64_t num_running() const { return scheduler_.stats().requests_running; }
  // False after a minute.
  bool AwaitRunning(int64_t count) const {
    const absl::Time until = absl::Now() + absl::Minutes(1);
    while (num_running() != count && absl::Now() < until) {
      std::this_thread::yield();
    }
    return num_running() == count;
  }

 private:
  testing::FakeSpine spine_{NanoSized()};
  testing::FakeRoutedExperts experts_{spine_.spec().expert_shape()};
  ForwardPass forward_{spine_, experts_};
  Scheduler scheduler_;
  HttpRouter router_{RouterOptions()};
  std::unique_ptr<OpenAiService> service_;
  std::unique_ptr<HttpServer> server_;
};

std::string Completion(const std::string& more) {
  const std::string body = fmt::format(
      R"({{"model":"nano","prompt":"It was","ignore_eos":true{}}})", more);
  return fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      body.size(), body);
}

// Asks for choices without end and reads how each begins, then nothing more.
void Stall(HttpSocket& client) {
  client.Send(Completion(fmt::format(
      R"(,"stream":true,"temperature":1,"n":{},"max_tokens":1000000000)",
      kNumChoices)));
  for (int choice = 0; choice < kNumChoices; ++choice) {
    const std::string index = fmt::format("\"index\":{}", choice);
    EXPECT_TRUE(client.ReadUntil(index).ends_with(index));
  }
}

void ExpectIsAnswered(const StallServer& server) {
  HttpSocket other(server.port());
  other.Send(Completion(R"(,"max_tokens":3)"));
  const std::optional<HttpAnswer> answer = other.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 200);
  EXPECT_NE(answer->body.find("\"completion_tokens\":3"), std::string::npos);
}

// What is left unread ends it at once, or the time in which nothing is read.
constexpr StallLimits kLimits[] = {
    {size_t{64} << 10, absl::Minutes(10)},
    {size_t{1} << 30, absl::Milliseconds(100)},
};

TEST(OpenAiStalledReaderTest, GivesUpThePlacesOfAllItsChoices) {
  for (const StallLimits& limits : kLimits) {
    StallServer server(limits, kNumChoices);
    HttpSocket stalled(server.port(), /*receive_buffer_bytes=*/4096);
    Stall(stalled);
    // There is no place for it before.
    ExpectIsAnswered(server);
    EXPECT_TRUE(server.AwaitRunning(0));
    const FinishCounts finished = server.finished();
    EXPECT_EQ(finished.cancelled + finished.stop, kNumChoices);
    EXPECT_EQ(finished.length, 1);
  }
}

TEST(OpenAiStalledReaderTest, LetsOthersGetOnMeanwhile) {
  // Never reached here.
  const StallLimits limits = {size_t{1} << 40, absl::Hours(1)};
  StallServer server(limits, kNumChoices + 1);
  HttpSocket stalled(server.port(), /*receive_buffer_bytes=*/4096);
  Stall(stalled);
  for (int i = 0; i < 3; ++i) ExpectIsAnswered(server);
  EXPECT_EQ(server.finished().length, 3);
  EXPECT_TRUE(server.AwaitRunning(kNumChoices));
  stalled.Reset();
  EXPECT_TRUE(server.AwaitRunning(0));
}

}  // namespace
}  // namespace deltafin
