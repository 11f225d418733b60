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

}  // namespace

ExpertDispatcher::ExpertDispatcher(const DispatcherOptions& options,
                                   ClusterView& view)
    : options_(options),
      links_(options.links, options.identity, view),
      exchange_(options.exchange, links_, view, *options.kernel,
                options.latent_size),
      heat_(options.extent),
      layer_times_(options.extent) {}

ExpertDispatcher::~ExpertDispatcher() = default;

absl::Status ExpertDispatcher::ConnectAll() {
  RETURN_IF_ERROR(links_.ConnectAll());
  MutexLock lock(mutex_);
  for (int slot = 0; slot < links_.num_slots(); ++slot) StatsOf(slot);
  return absl::OkStatus();
}

absl::Status ExpertDispatcher::Start(uint64_t step, int layer,
                                     const RoutedTokens& routed) {
  if (step != layer_.step) links_.Refresh(absl::Now());
  const uint64_t epoch =
      step != layer_.step ? links_.placement().epoch() : layer_.epoch;
  layer_ = {epoch, step, layer};
  layer_times_.Begin(step, layer);
  exchange_.Begin(layer_, routed);
  started_ = absl::Now();
  if (exchange_.largest_send_bytes() > kInlineSendBytes) {
    thread_.Begin([this](const std::function<bool()>& stopped) {
      return exchange_.Run(stopped, started_ + options_.layer_timeout);
    });
  }
  heat_.Count(layer, routed.num_tokens, routed.experts);
  return absl::OkStatus();
}

bool ExpertDispatcher::WantsHints() const {
  return !thread_.busy() && exchange_.WantsHints();
}

void ExpertDispatcher::Expect(int layer, std::span<const int32_t> experts) {
  exchange_.Expect(layer, experts);
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
  exchange_.Forget(layer_.epoch, step);
}

ExpertTimings ExpertDispatcher::TakeTimings() {
  trace_.Clear();
  return std::exchange(timings_, ExpertTimings());
}

void ExpertDispatcher::Tend() {
  links_.Refresh(absl::Now());
  exchange_.Tend();
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
  TraceLayer(overlapped, waited);
  MutexLock lock(mutex_);
  ++stats_.layers;
  for (size_t slot = 0; slot < exchange_.work().size(); ++slot) {
    AddWork(exchange_.work()[slot], &StatsOf(static_cast<int>(slot)).work);
  }
}

void ExpertDispatcher::TraceLayer(absl::Duration overlapped,
                                  absl::Duration waited) {
  LayerTrace layer;
  layer.layer = layer_.layer;
  layer.waited = absl::ToDoubleSeconds(waited);
  absl::Duration answered_after;
  absl::Duration given_up_after;
  absl::Duration hedged_after;
  for (size_t slot = 0; slot < exchange_.work().size(); ++slot) {
    const NodeWork& work = exchange_.work()[slot];
    layer_times_.Add(static_cast<int>(slot),
                     links_.name(static_cast<int>(slot)), work);
    if (work.answered_after > answered_after) {
      answered_after = work.answered_after;
      const PartTiming& last = work.last;
      layer.node = links_.name(static_cast<int>(slot));
      layer.queue = absl::ToDoubleSeconds(last.queue);
      layer.read = absl::ToDoubleSeconds(last.read);
      layer.compute = absl::ToDoubleSeconds(last.compute);
      layer.link =
          std::max(0.0, absl::ToDoubleSeconds(last.elapsed - last.queue -
                                              last.read - last.compute));
    }
    if (work.given_up_after > given_up_after) {
      given_up_after = work.given_up_after;
      layer.given_up = links_.name(static_cast<int>(slot));
      layer.replan = absl::ToDoubleSeconds(given_up_after - overlapped);
    }
    if (work.hedged_after > hedged_after) {
      hedged_after = work.hedged_after;
      layer.late = links_.name(static_cast<int>(slot));
      layer.hedge = absl::ToDoubleSeconds(hedged_after - overlapped);
    }
  }
  trace_.Add(layer);
}

NodeStats& ExpertDispatcher::StatsOf(int slot) {
  if (stats_.nodes.size() <= static_cast<size_t>(slot)) {
    stats_.nodes.resize(slot + 1);
  }
  NodeStats& stats = stats_.nodes[slot];
  stats.streams_opened = links_.stream(slot);
  if (!links_.connected(slot)) return stats;
  const v1::HandshakeReply& info = links_.clients().info(slot);
  if (stats.info.node_id() == info.node_id()) return stats;
  if (!stats.info.node_id().empty()) stats.work = NodeWork();
  stats.name = links_.name(slot);
  stats.info = info;
  return stats;
}

DispatcherStats ExpertDispatcher::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace deltafin
