// coordinator/frontend/openai_service.h
//
// The OpenAI-compatible API over HTTP (docs/http_api.md). Thread-safe: handlers
// parse, enqueue and return; answers are written as the engine has them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/http_router.h"
#include "coordinator/frontend/openai_generation.h"
#include "coordinator/frontend/openai_request.h"
#include "coordinator/frontend/prefill_estimate.h"
#include "coordinator/frontend/resumable_streams.h"
#include "coordinator/frontend/stream_pulse.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

struct OpenAiServiceOptions {
  OpenAiModel model;
  int32_t eos_token_id = 0;
  // Whether a request could be answered now; for /healthz. Any thread.
  std::function<bool()> is_serving;
  // The page of /metrics. Any thread.
  std::function<std::string()> metrics;
  // Of keep-alives and of what waits to be resumed; must outlive the service.
  const Clock* clock = &SystemClock();
  // How often that clock is looked at.
  absl::Duration pulse = absl::Milliseconds(100);
};

class OpenAiService {
 public:
  // `tokenizer` and `scheduler` must outlive the service, and the service the
  // handlers of its routes.
  OpenAiService(OpenAiServiceOptions options, const Tokenizer& tokenizer,
                Scheduler& scheduler);
  // Cancels what still runs and waits for the scheduler to end it.
  ~OpenAiService();

  void AddRoutes(HttpRouter& router);

 private:
  enum class Endpoint : uint8_t { kChat, kCompletion, kResponse };

  void Generate(Endpoint endpoint, const HttpRequest& http,
                const std::shared_ptr<HttpReply>& reply);
  void Start(Endpoint endpoint, OpenAiRequest request,
             const std::shared_ptr<HttpReply>& reply);
  std::unique_ptr<AnswerFormat> MakeFormat(Endpoint endpoint,
                                           const OpenAiRequest& request) const;
  // Errors: RESOURCE_EXHAUSTED for one stream too many that can be resumed.
  absl::StatusOr<std::shared_ptr<AnswerWriter>> MakeWriter(
      Endpoint endpoint, const OpenAiRequest& request,
      const std::weak_ptr<OpenAiGeneration>& generation,
      const std::shared_ptr<HttpReply>& reply);
  absl::Status Resume(const HttpRequest& request,
                      const std::shared_ptr<HttpReply>& reply);
  absl::Status Delete(const HttpRequest& request, HttpReply& reply);
  HttpHeaders AnswerHeaders(const OpenAiRequest& request) const;
  void SendStartError(HttpReply& reply, const absl::Status& status) const;
  std::string ModelJson() const;
  void SendModel(const HttpRequest& request, HttpReply& reply) const;
  void SendHealth(HttpReply& reply) const;

  const OpenAiServiceOptions options_;
  const Tokenizer& tokenizer_;
  PrefillEstimate estimate_;
  GenerationSet live_;
  const GenerationPlace place_;
  ResumableStreams resumable_;
  StreamPulse pulse_;
};

}  // namespace deltafin
