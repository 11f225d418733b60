#include "coordinator/engine/scheduler.h"

#include <pthread.h>

#include <thread>
#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/engine/engine_loop.h"
#include "coordinator/engine/request_check.h"
#include "coordinator/engine/submission_queue.h"
#include "kernels/kernel_registry.h"

namespace deltafin {
namespace {

absl::Status CheckOptions(const SchedulerOptions& options) {
  const std::pair<const char*, int64_t> positive[] = {
      {"prefill_chunk", options.prefill_chunk},
      {"context_tokens", options.context_tokens},
      {"max_sequences", options.max_sequences},
      {"max_queued", options.max_queued}};
  for (const auto& [name, value] : positive) {
    if (value < 1) {
      return absl::InvalidArgumentError(
          fmt::format("{} is {}; it must be at least 1", name, value));
    }
  }
  if (options.retained_bytes < 0) {
    return absl::InvalidArgumentError(
        fmt::format("retained_bytes is {}; it must not be negative",
                    options.retained_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

struct Scheduler::Impl {
  Impl(const SchedulerOptions& scheduler_options, ForwardPass& forward)
      : options(scheduler_options),
        spec(forward.spine().spec()),
        description(forward.spine().description()),
        kernel(scheduler_options.kernel != nullptr ? *scheduler_options.kernel
                                                   : BestKernel().elementwise),
        queue(scheduler_options.max_queued),
        loop(scheduler_options, forward, queue) {}

  const SchedulerOptions options;
  const ModelSpec& spec;
  const SpineDescription description;
  const ElementwiseKernel& kernel;
  SubmissionQueue queue;
  EngineLoop loop;
  Mutex mutex;  // Start and Shutdown
  std::thread engine ABSL_GUARDED_BY(mutex);
};

Scheduler::Scheduler(const SchedulerOptions& options, ForwardPass& forward)
    : impl_(std::make_unique<Impl>(options, forward)) {}

Scheduler::~Scheduler() { Shutdown(); }

absl::Status Scheduler::Start() {
  RETURN_IF_ERROR(CheckOptions(impl_->options));
  MutexLock lock(impl_->mutex);
  if (impl_->queue.closed() || impl_->engine.joinable()) {
    return absl::FailedPreconditionError("the engine was started before");
  }
  impl_->engine = std::thread([impl = impl_.get()] { impl->loop.Run(); });
  pthread_setname_np(impl_->engine.native_handle(), "engine");
  return absl::OkStatus();
}

void Scheduler::Shutdown() {
  impl_->queue.Close();
  MutexLock lock(impl_->mutex);
  if (impl_->engine.joinable()) impl_->engine.join();
  impl_->loop.EndAll();
}

absl::StatusOr<RequestId> Scheduler::Submit(GenerationRequest request,
                                            TokenSink* sink) {
  RETURN_IF_ERROR(CheckRequest(request, impl_->spec.vocab_size,
                               impl_->options.context_tokens));
  if (impl_->options.retained_bytes == 0) request.shared_prefix_tokens = 0;
  if (!request.speculation) request.speculation = impl_->options.speculation;
  auto live = std::make_unique<LiveRequest>(
      std::move(request), sink,
      SequenceLimits{impl_->options.context_tokens, impl_->spec.eos_token_id},
      impl_->kernel);
  const int64_t bytes = StateBytes(impl_->description, *live);
  const int64_t room = impl_->options.state_bytes();
  if (room > 0 && bytes > room) {
    return absl::ResourceExhaustedError(fmt::format(
        "a sequence of {} tokens needs {} bytes of state, {} are set aside for "
        "sequences: ask for fewer tokens or give it more memory",
        live->max_state_tokens(), bytes, room));
  }
  return impl_->queue.Push(std::move(live));
}

void Scheduler::Cancel(RequestId id) { impl_->queue.Cancel(id); }

absl::StatusOr<v1::Explanation> Scheduler::Explain(RequestId id) const {
  return impl_->loop.history().Find(id);
}

SchedulerStats Scheduler::stats() const { return impl_->loop.stats(); }

}  // namespace deltafin
