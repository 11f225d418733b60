#include "expert_node/layer_stream.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/thread_affinity.h"

namespace deltafin {
namespace {

void SetName(const LayerWork& work, v1::LayerReply& reply) {
  reply.set_epoch(work.epoch);
  reply.set_step(work.step);
  reply.set_layer(work.layer);
  reply.set_part(work.part);
}

void SetStatus(const absl::Status& status, v1::LayerReply& reply) {
  reply.set_status_code(static_cast<uint32_t>(status.code()));
  reply.set_status_message(std::string(status.message()));
}

void SetResult(LayerResult result, absl::Duration since_arrival,
               v1::LayerReply& reply) {
  SetStatus(result.status, reply);
  reply.set_error_expert(result.error_expert);
  reply.set_error_token(result.error_token);
  reply.mutable_token()->Add(result.tokens.begin(), result.tokens.end());
  reply.set_sums(std::move(result.sums));
  reply.set_slices_computed(result.slices_computed);
  reply.set_bytes_read(result.bytes_read);
  reply.set_cache_hits(result.cache_hits);
  reply.set_cache_misses(result.cache_misses);
  reply.set_expected_used(result.expected.used);
  reply.set_expected_wasted(result.expected.wasted);
  const absl::Duration queued = std::max(
      since_arrival - result.read - result.compute, absl::ZeroDuration());
  v1::LayerTimings& timings = *reply.mutable_timings();
  timings.set_queue_us(absl::ToInt64Microseconds(queued));
  timings.set_read_us(absl::ToInt64Microseconds(result.read));
  timings.set_compute_us(absl::ToInt64Microseconds(result.compute));
}

}  // namespace

LayerStream::LayerStream(const LayerStreamContext& context, Receive receive,
                         Send send)
    : context_(context),
      receive_(std::move(receive)),
      send_(std::move(send)),
      queue_(context.queue_limits) {}

absl::Status LayerStream::Serve() {
  std::thread second([this] {
    SetThreadName("expert-stream");
    TakeTurns();
  });
  TakeTurns();
  second.join();
  return end_;
}

void LayerStream::TakeTurns() {
  while (true) {
    const RequestQueue::Turn turn = queue_.Take();
    switch (turn.task) {
      case RequestQueue::Task::kRead:
        ReadToNextRequest();
        break;
      case RequestQueue::Task::kRun:
        RunAndReply(turn.requests);
        break;
      case RequestQueue::Task::kEnd:
        return;
    }
  }
}

void LayerStream::ReadToNextRequest() {
  std::shared_ptr<QueuedRequest> request;
  const Received received = ReadRequest(&request);
  if (received != Received::kMessage) {
    CloseQueue(received == Received::kEnd ? RequestQueue::CloseMode::kFinish
                                          : RequestQueue::CloseMode::kDrop);
  }
  queue_.FinishRead(std::move(request));
}

// Reads up to the next layer request.
LayerStream::Received LayerStream::ReadRequest(
    std::shared_ptr<QueuedRequest>* request) {
  while (true) {
    const Received received = receive_(&message_);
    if (received != Received::kMessage) return received;
    if (message_.has_layer()) {
      *request = Admit(message_.layer());
      return Received::kMessage;
    }
    if (message_.has_expect()) {
      Expect(message_.expect());
      continue;
    }
    if (!message_.has_cancel()) {
      end_ = absl::InvalidArgumentError(
          "request: missing, want layer, cancel or expect; the stream ends");
      return Received::kBroken;
    }
    queue_.CancelStep(message_.cancel().epoch(), message_.cancel().step());
  }
}

void LayerStream::Expect(const v1::ExpectExperts& request) {
  const auto runs = CheckExpectExperts(request, context_.spec);
  if (runs.ok()) {
    context_.engine.Expect(static_cast<int>(request.layer()), *runs);
    return;
  }
  ++context_.counters.refused;
  spdlog::warn("refused what a coordinator expects: {}",
               runs.status().ToString());
}

std::shared_ptr<QueuedRequest> LayerStream::Admit(
    const v1::LayerRequest& request) {
  auto queued = std::make_shared<QueuedRequest>();
  queued->arrival = absl::Now();
  absl::StatusOr<LayerWork> work =
      CheckLayerRequest(request, context_.spec, context_.max_request_tokens);
  if (work.ok()) {
    queued->work = *std::move(work);
    queued->pass = context_.gate.Enter();
    if (queued->pass.has_value()) return queued;
    queued->refusal = absl::UnavailableError("the node is shutting down");
  } else {
    queued->refusal = work.status();
  }
  queued->work = LayerWork();
  queued->work.epoch = request.epoch();
  queued->work.step = request.step();
  queued->work.layer = request.layer();
  queued->work.part = request.part();
  return queued;
}

void LayerStream::RunAndReply(const RequestQueue::Requests& requests) {
  std::vector<LayerResult> results = Run(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (context_.reply_error && results[i].status.ok()) {
      const absl::Status error = context_.reply_error();
      if (!error.ok()) (results[i] = LayerResult()).status = error;
    }
    const v1::LayerReply reply = Reply(*requests[i], std::move(results[i]));
    if (context_.reply_delay) absl::SleepFor(context_.reply_delay());
    const bool sent = send_(reply);
    requests[i]->pass.reset();
    if (sent) continue;
    CloseQueue(RequestQueue::CloseMode::kDrop);
    break;
  }
  queue_.FinishRun();
}

// A result for each request; refused ones do not run.
std::vector<LayerResult> LayerStream::Run(
    const RequestQueue::Requests& requests) {
  std::vector<LayerResult> results(requests.size());
  std::vector<const LayerWork*> parts;
  std::vector<size_t> index_of_part;
  for (size_t i = 0; i < requests.size(); ++i) {
    results[i].status = requests[i]->refusal;
    if (!results[i].status.ok()) continue;
    if (requests[i]->cancelled) {
      results[i].status = absl::CancelledError("cancelled by the coordinator");
      continue;
    }
    parts.push_back(&requests[i]->work);
    index_of_part.push_back(i);
  }
  if (parts.empty()) return results;
  // Parts of one step are cancelled together: the flag of one is that of all.
  std::vector<LayerResult> ran =
      context_.engine.Run(parts, requests[index_of_part[0]]->cancelled);
  for (size_t p = 0; p < parts.size(); ++p) {
    results[index_of_part[p]] = std::move(ran[p]);
  }
  return results;
}

v1::LayerReply LayerStream::Reply(const QueuedRequest& request,
                                  LayerResult result) {
  v1::LayerReply reply;
  SetName(request.work, reply);
  if (!request.refusal.ok()) {
    ++context_.counters.refused;
    spdlog::warn("refused a layer request: {}", request.refusal.ToString());
    SetStatus(request.refusal, reply);
    return reply;
  }
  ++context_.counters.layer_requests;
  if (absl::IsCancelled(result.status)) {
    ++context_.counters.cancelled;
  } else if (!result.status.ok()) {
    spdlog::error("layer request failed: {}", result.status.ToString());
  }
  context_.counters.slices_computed += result.slices_computed;
  const absl::Duration since_arrival = absl::Now() - request.arrival;
  SetResult(std::move(result), since_arrival, reply);
  context_.counters.queue_us += reply.timings().queue_us();
  context_.counters.read_us += reply.timings().read_us();
  context_.counters.compute_us += reply.timings().compute_us();
  context_.counters.answer_times.Add(since_arrival);
  return reply;
}

void LayerStream::CloseQueue(RequestQueue::CloseMode mode) {
  context_.counters.cancelled += queue_.Close(mode);
}

}  // namespace deltafin
