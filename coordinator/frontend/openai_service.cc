#include "coordinator/frontend/openai_service.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/random_id.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/openai_chat_format.h"
#include "coordinator/frontend/openai_completion_format.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_response_format.h"
#include "coordinator/frontend/openai_shared_fields.h"
#include "coordinator/frontend/openai_text.h"
#include "coordinator/frontend/percent_text.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr double kMaxRetrySeconds = 60;
constexpr std::string_view kModelsPath = "/v1/models/";
constexpr std::string_view kStreamsPath = "/v1/streams/";

bool IsCompressed(const HttpRequest& request) {
  const std::string* coding = request.Header("content-encoding");
  return coding != nullptr && absl::AsciiStrToLower(*coding) != "identity";
}

// Plain JSON in UTF-8. Browsers send no such body across origins without asking
// first.
bool IsJson(const HttpRequest& request) {
  const std::string* type = request.Header("content-type");
  if (type == nullptr || IsCompressed(request)) return false;
  const std::string lower = absl::AsciiStrToLower(*type);
  const size_t name_end = std::min(lower.find(';'), lower.size());
  const absl::string_view name(lower.data(), name_end);
  const size_t charset = lower.find("charset=");
  return absl::StripAsciiWhitespace(name) == "application/json" &&
         (charset == std::string::npos ||
          lower.find("utf-8", charset) != std::string::npos);
}

// Hands bodies of JSON to `handler`; others get 415.
HttpHandler ForJson(
    std::function<void(const HttpRequest&, const std::shared_ptr<HttpReply>&)>
        handler) {
  return [handler = std::move(handler)](HttpRequest request,
                                        std::shared_ptr<HttpReply> reply) {
    if (IsJson(request)) return handler(request, reply);
    const std::string body = OpenAiErrorJson(WithCode(
        absl::InvalidArgumentError(
            "the body must be sent as Content-Type: application/json, in "
            "UTF-8 and not compressed"),
        "unsupported_media_type"));
    reply->Send(415, {{"Content-Type", "application/json"}}, body);
  };
}

HttpHandler ForText(absl::StatusOr<std::string> (*convert)(std::string_view,
                                                           const Tokenizer&,
                                                           const OpenAiModel&),
                    const Tokenizer& tokenizer, const OpenAiModel& model) {
  return ForJson([convert, &tokenizer, &model](
                     const HttpRequest& request,
                     const std::shared_ptr<HttpReply>& reply) {
    absl::StatusOr<std::string> json = convert(request.body, tokenizer, model);
    if (json.ok()) return SendJson(*reply, *std::move(json));
    SendOpenAiError(*reply, json.status());
  });
}

int NumChoices(const OpenAiRequest& request) {
  return static_cast<int>(request.prompts.size()) * request.num_choices;
}

}  // namespace

OpenAiService::OpenAiService(OpenAiServiceOptions options,
                             const Tokenizer& tokenizer, Scheduler& scheduler)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      place_{tokenizer, scheduler, estimate_, live_, options_.eos_token_id},
      pulse_(options_.pulse) {}

OpenAiService::~OpenAiService() { live_.CancelAll(); }

void OpenAiService::AddRoutes(HttpRouter& router) {
  const auto generate = [this](Endpoint endpoint) {
    return ForJson([this, endpoint](const HttpRequest& request,
                                    const std::shared_ptr<HttpReply>& reply) {
      Generate(endpoint, request, reply);
    });
  };
  const auto send_model = [this](const HttpRequest& request,
                                 const std::shared_ptr<HttpReply>& reply) {
    SendModel(request, *reply);
  };
  constexpr RouteAccess kKey = RouteAccess::kKey;
  router.Add({"POST", "/v1/chat/completions", kKey, generate(Endpoint::kChat)});
  router.Add(
      {"POST", "/v1/completions", kKey, generate(Endpoint::kCompletion)});
  router.Add({"POST", "/v1/responses", kKey, generate(Endpoint::kResponse)});
  router.Add({"GET", "/v1/models", kKey, send_model});
  router.Add({"GET", std::string(kModelsPath), kKey, send_model});
  router.Add({"GET", std::string(kStreamsPath), kKey,
              [this](const HttpRequest& request,
                     const std::shared_ptr<HttpReply>& reply) {
                const absl::Status status = Resume(request, reply);
                if (!status.ok()) SendOpenAiError(*reply, status);
              }});
  router.Add({"DELETE", std::string(kStreamsPath), kKey,
              [this](const HttpRequest& request,
                     const std::shared_ptr<HttpReply>& reply) {
                const absl::Status status = Delete(request, *reply);
                if (!status.ok()) SendOpenAiError(*reply, status);
              }});
  router.Add({"POST", "/tokenize", kKey,
              ForText(TokenizeJson, tokenizer_, options_.model)});
  router.Add({"POST", "/detokenize", kKey,
              ForText(DetokenizeJson, tokenizer_, options_.model)});
  router.Add({"GET", "/metrics", kKey,
              [this](const HttpRequest&, std::shared_ptr<HttpReply> reply) {
                reply->Send(200,
                            {{"Content-Type", "text/plain; version=0.0.4"}},
                            options_.metrics());
              }});
  router.Add({"GET", "/healthz", RouteAccess::kOpen,
              [this](const HttpRequest&, std::shared_ptr<HttpReply> reply) {
                SendHealth(*reply);
              }});
}

void OpenAiService::Generate(Endpoint endpoint, const HttpRequest& http,
                             const std::shared_ptr<HttpReply>& reply) {
  const auto parse = endpoint == Endpoint::kChat         ? ParseChatCompletion
                     : endpoint == Endpoint::kCompletion ? ParseCompletion
                                                         : ParseResponseRequest;
  absl::StatusOr<OpenAiRequest> request =
      parse(http.body, tokenizer_, options_.model);
  if (!request.ok()) return SendOpenAiError(*reply, request.status());
  Start(endpoint, *std::move(request), reply);
}

void OpenAiService::Start(Endpoint endpoint, OpenAiRequest request,
                          const std::shared_ptr<HttpReply>& reply) {
  const bool is_streamed = request.stream;
  auto generation =
      std::make_shared<OpenAiGeneration>(std::move(request), place_);
  const std::weak_ptr<OpenAiGeneration> weak = generation;
  auto writer = MakeWriter(endpoint, generation->request(), weak, reply);
  const absl::Status status =
      writer.ok() ? generation->Start(*std::move(writer)) : writer.status();
  if (!status.ok()) return SendStartError(*reply, status);
  if (is_streamed) return;  // the stream knows
  reply->OnGone([weak] {
    if (const auto running = weak.lock()) running->Cancel();
  });
}

std::unique_ptr<AnswerFormat> OpenAiService::MakeFormat(
    Endpoint endpoint, const OpenAiRequest& request) const {
  const ChoicesFormatOptions options = {
      request.stream_options.value_or(StreamOptions()).include_usage,
      request.generation.want_logprobs, request.generation.top_logprobs};
  AnswerIdentity identity = {"", options_.clock->Now(), options_.model.name,
                             options_.model.fingerprint};
  if (endpoint == Endpoint::kChat) {
    identity.id = "chatcmpl-" + RandomId();
    return std::make_unique<ChatFormat>(std::move(identity), options,
                                        tokenizer_.vocabulary(),
                                        NumChoices(request));
  }
  if (endpoint == Endpoint::kResponse) {
    identity.id = "resp_" + RandomId();
    return std::make_unique<ResponsesFormat>(std::move(identity),
                                             ResponseEcho(request));
  }
  identity.id = "cmpl-" + RandomId();
  return std::make_unique<CompletionFormat>(std::move(identity), options,
                                            tokenizer_.vocabulary(),
                                            NumChoices(request));
}

absl::StatusOr<std::shared_ptr<AnswerWriter>> OpenAiService::MakeWriter(
    Endpoint endpoint, const OpenAiRequest& request,
    const std::weak_ptr<OpenAiGeneration>& generation,
    const std::shared_ptr<HttpReply>& reply) {
  std::unique_ptr<AnswerFormat> format = MakeFormat(endpoint, request);
  HttpHeaders headers = AnswerHeaders(request);
  if (!request.stream) {
    headers.emplace_back("Content-Type", "application/json");
    auto whole = std::make_shared<WholeAnswer>(
        std::move(format), NumChoices(request), reply, std::move(headers),
        *options_.clock);
    pulse_.Add(whole);
    return whole;
  }
  const StreamOptions asked = request.stream_options.value_or(StreamOptions());
  EventStreamOptions options;
  if (asked.empty_delta) options.empty_event = format->Nothing();
  options.resumable = asked.resumable;
  auto stream = std::make_shared<EventStream>(
      std::move(options), *options_.clock, [generation] {
        if (const auto running = generation.lock()) running->Cancel();
      });
  if (asked.resumable > absl::ZeroDuration()) {
    ASSIGN_OR_RETURN(std::string id, resumable_.Add(stream));
    headers.emplace_back("X-Stream-Id", std::move(id));
  }
  pulse_.Add(stream);
  return std::make_shared<StreamedAnswer>(std::move(format), std::move(stream),
                                          reply, std::move(headers));
}

absl::Status OpenAiService::Resume(const HttpRequest& request,
                                   const std::shared_ptr<HttpReply>& reply) {
  ASSIGN_OR_RETURN(const uint64_t from, ParseFrom(request.query));
  ASSIGN_OR_RETURN(
      const std::shared_ptr<EventStream> stream,
      resumable_.Find(
          std::string_view(request.path).substr(kStreamsPath.size())));
  const absl::Status attached = stream->Attach(reply, {}, from);
  if (attached.ok()) return absl::OkStatus();
  return WithField(absl::InvalidArgumentError(attached.message()), "from");
}

absl::Status OpenAiService::Delete(const HttpRequest& request,
                                   HttpReply& reply) {
  const std::string_view id =
      std::string_view(request.path).substr(kStreamsPath.size());
  ASSIGN_OR_RETURN(const std::shared_ptr<EventStream> stream,
                   resumable_.Remove(id));
  stream->Stop();
  SendJson(reply, JsonObject()
                      .Text("id", id)
                      .Text("object", "stream")
                      .Boolean("deleted", true)
                      .text());
  return absl::OkStatus();
}

HttpHeaders OpenAiService::AnswerHeaders(const OpenAiRequest& request) const {
  int64_t prompt_tokens = 0;
  for (const std::vector<int32_t>& prompt : request.prompts) {
    prompt_tokens += std::ssize(prompt);
  }
  const auto estimate = estimate_.UntilFirstToken(prompt_tokens);
  if (!estimate) return {};
  return {{"X-Estimated-First-Token-Seconds",
           fmt::format("{:.3f}", absl::ToDoubleSeconds(*estimate))}};
}

void OpenAiService::SendStartError(HttpReply& reply,
                                   const absl::Status& status) const {
  HttpHeaders headers;
  if (absl::IsResourceExhausted(status)) {
    const double seconds = absl::ToDoubleSeconds(
        estimate_.UntilFirstToken(0).value_or(absl::Seconds(1)));
    headers.emplace_back(
        "Retry-After", fmt::format("{:.0f}", std::clamp(std::ceil(seconds), 1.0,
                                                        kMaxRetrySeconds)));
  }
  SendOpenAiError(reply, status, std::move(headers));
}

std::string OpenAiService::ModelJson() const {
  return JsonObject()
      .Text("id", options_.model.name)
      .Text("object", "model")
      .Integer("created", absl::ToUnixSeconds(options_.model.created))
      .Text("owned_by", "deltafin")
      .Integer("max_model_len", options_.model.context_tokens)
      .Text("system_fingerprint", options_.model.fingerprint)
      .text();
}

void OpenAiService::SendModel(const HttpRequest& request,
                              HttpReply& reply) const {
  if (!request.path.starts_with(kModelsPath)) {
    return SendJson(reply, JsonObject()
                               .Text("object", "list")
                               .Json("data", fmt::format("[{}]", ModelJson()))
                               .text());
  }
  const absl::Status status = CheckModel(
      PercentDecoded(request.path.substr(kModelsPath.size())), options_.model);
  if (!status.ok()) return SendOpenAiError(reply, status);
  SendJson(reply, ModelJson());
}

void OpenAiService::SendHealth(HttpReply& reply) const {
  const bool is_serving = options_.is_serving();
  reply.Send(
      is_serving ? 200 : 503, {{"Content-Type", "application/json"}},
      JsonObject().Text("status", is_serving ? "ok" : "unavailable").text());
}

}  // namespace deltafin
