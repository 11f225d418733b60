#include "coordinator/engine/expert_dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// Up to this many bytes to each node a message is out when Start returns (it
// fits the socket's buffer and the first HTTP/2 window of 64 KiB), and the
// engine thread itself waits for the reply: no thread switch. More is moved by
// the exchange thread while the spine computes.
constexpr int64_t kInlineSendBytes = 60 << 10;

std::unique_ptr<CutPolicy> MakePolicy(const DispatcherOptions& options) {
  const int num_nodes = static_cast<int>(options.nodes.size());
  const int num_slices = options.shape.num_slices();
  const std::vector<double> weights(num_nodes, 1.0);
  if (options.random_placement_seed) {
    return NewRandomCut(weights, num_slices, *options.random_placement_seed);
  }
  return NewProportionalCut(weights, num_slices);
}

void Accumulate(const NodeWork& from, NodeWork* to) {
  to->replies += from.replies;
  to->slices_computed += from.slices_computed;
  to->bytes_read += from.bytes_read;
  to->cache_hits += from.cache_hits;
  to->cache_misses += from.cache_misses;
  to->replies_dropped += from.replies_dropped;
  to->queue_seconds += from.queue_seconds;
  to->read_seconds += from.read_seconds;
  to->compute_seconds += from.compute_seconds;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExpertDispatcher>> ExpertDispatcher::Connect(
    DispatcherOptions options) {
  if (options.nodes.empty()) {
    return absl::InvalidArgumentError("no expert node is named");
  }
  CHECK(options.kernel != nullptr);
  std::unique_ptr<ExpertDispatcher> dispatcher(
      new ExpertDispatcher(std::move(options)));
  RETURN_IF_ERROR(dispatcher->ConnectAll());
  return dispatcher;
}

ExpertDispatcher::ExpertDispatcher(DispatcherOptions options)
    : options_(std::move(options)),
      policy_(MakePolicy(options_)),
      clients_(options_.nodes, options_.identity),
      exchange_(clients_, *options_.kernel, options_.shape.latent_size) {
  MutexLock lock(mutex_);
  stats_.nodes.resize(options_.nodes.size());
}

ExpertDispatcher::~ExpertDispatcher() = default;

absl::Status ExpertDispatcher::ConnectAll() {
  for (int node = 0; node < clients_.num_nodes(); ++node) {
    RETURN_IF_ERROR(clients_.Connect(node, options_.connect_timeout));
    MutexLock lock(mutex_);
    stats_.nodes[node].name = clients_.name(node);
    stats_.nodes[node].info = clients_.info(node);
  }
  return absl::OkStatus();
}

absl::Status ExpertDispatcher::Start(uint64_t step, int layer,
                                     const RoutedTokens& routed) {
  RETURN_IF_ERROR(exchange_.Begin({options_.epoch, step, layer}, routed,
                                  *policy_, options_.connect_timeout));
  started_ = absl::Now();
  if (exchange_.largest_send_bytes() > kInlineSendBytes) {
    thread_.Begin([this](const std::function<bool()>& stopped) {
      return exchange_.Run(stopped, started_ + options_.layer_timeout);
    });
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const int64_t>> ExpertDispatcher::Wait(
    const std::function<bool()>& cancelled) {
  const absl::Time waiting_from = absl::Now();
  const absl::Status status =
      thread_.busy()
          ? thread_.Finish(cancelled)
          : exchange_.Run(cancelled, started_ + options_.layer_timeout);
  AccountLayer(waiting_from - started_, absl::Now() - waiting_from);
  RETURN_IF_ERROR(status);
  return exchange_.totals();
}

void ExpertDispatcher::Abandon(uint64_t step) {
  if (thread_.busy()) thread_.Finish([] { return true; }).IgnoreError();
  exchange_.Forget(options_.epoch, step);
}

ExpertTimings ExpertDispatcher::TakeTimings() {
  return std::exchange(timings_, ExpertTimings());
}

void ExpertDispatcher::AccountLayer(absl::Duration overlapped,
                                    absl::Duration waited) {
  const double elapsed = absl::ToDoubleSeconds(overlapped + waited);
  NodeWork slowest;
  for (const NodeWork& work : exchange_.work()) {
    if (work.read_seconds + work.compute_seconds >
        slowest.read_seconds + slowest.compute_seconds) {
      slowest = work;
    }
  }
  const double read = std::min(slowest.read_seconds, elapsed);
  const double compute = std::min(slowest.compute_seconds, elapsed - read);
  const double not_hidden =
      std::max(0.0, read + compute - absl::ToDoubleSeconds(overlapped));
  timings_.read += read;
  timings_.compute += compute;
  timings_.network += std::max(0.0, absl::ToDoubleSeconds(waited) - not_hidden);
  MutexLock lock(mutex_);
  ++stats_.layers;
  for (int node = 0; node < clients_.num_nodes(); ++node) {
    Accumulate(exchange_.work()[node], &stats_.nodes[node].work);
  }
}

DispatcherStats ExpertDispatcher::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace deltafin
