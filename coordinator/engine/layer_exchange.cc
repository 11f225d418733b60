#include "coordinator/engine/layer_exchange.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// How often `stopped` is asked while nothing arrives.
constexpr absl::Duration kPollInterval = absl::Milliseconds(5);
// How long Forget waits for a message that is half out.
constexpr absl::Duration kForgetPatience = absl::Milliseconds(200);

int32_t LowestExpert(const PlannedPart& part) {
  const auto& experts = part.request.expert();
  return static_cast<int32_t>(
      *std::min_element(experts.begin(), experts.end()));
}

void AddWork(const v1::LayerReply& reply, NodeWork* work) {
  constexpr double kMicrosecond = 1e-6;
  ++work->replies;
  work->slices_computed += static_cast<int64_t>(reply.slices_computed());
  work->bytes_read += static_cast<int64_t>(reply.bytes_read());
  work->cache_hits += reply.cache_hits();
  work->cache_misses += reply.cache_misses();
  work->queue_seconds += kMicrosecond * reply.timings().queue_us();
  work->read_seconds += kMicrosecond * reply.timings().read_us();
  work->compute_seconds += kMicrosecond * reply.timings().compute_us();
}

}  // namespace

LayerExchange::LayerExchange(ExpertClients& clients,
                             const ElementwiseKernel& kernel, int latent_size)
    : clients_(clients),
      plan_(clients.num_nodes()),
      reduction_(plan_, kernel, latent_size),
      latent_size_(latent_size),
      num_sent_(clients.num_nodes()),
      work_(clients.num_nodes()) {}

absl::Status LayerExchange::Begin(const LayerId& id, const RoutedTokens& routed,
                                  const CutPolicy& policy,
                                  absl::Duration connect_timeout) {
  if (id.step != plan_.id().step) DrainEvents();
  plan_.Build(id, routed, policy);
  reduction_.Begin();
  latent_ = routed.latent;
  std::fill(num_sent_.begin(), num_sent_.end(), 0);
  std::fill(work_.begin(), work_.end(), NodeWork());
  RETURN_IF_ERROR(ConnectNodes(connect_timeout));
  for (int node = 0; node < plan_.num_nodes(); ++node) SendNext(node);
  return absl::OkStatus();
}

// Learns of streams that broke between steps, so that they are opened again.
void LayerExchange::DrainEvents() {
  while (clients_.Next(absl::UnixEpoch()).kind != NodeEvent::Kind::kNone) {
  }
}

absl::Status LayerExchange::ConnectNodes(absl::Duration timeout) {
  for (int node = 0; node < plan_.num_nodes(); ++node) {
    if (clients_.connected(node) || plan_.parts(node).empty()) continue;
    if (absl::Status status = clients_.Connect(node, timeout); !status.ok()) {
      return Lost(node, status);
    }
  }
  return absl::OkStatus();
}

absl::Status LayerExchange::Run(const std::function<bool()>& stopped,
                                absl::Time deadline) {
  while (!reduction_.complete()) {
    if (stopped()) return absl::CancelledError("step abandoned");
    const absl::Time now = absl::Now();
    if (now >= deadline) return Overdue();
    RETURN_IF_ERROR(
        Handle(clients_.Next(std::min(now + kPollInterval, deadline))));
  }
  if (absl::Status status = reduction_.status(); !status.ok()) {
    return AddContext(status, At(reduction_.error_node()));
  }
  return absl::OkStatus();
}

void LayerExchange::SendNext(int node) {
  const std::span<PlannedPart> parts = plan_.parts(node);
  if (num_sent_[node] == parts.size() || !clients_.can_send(node)) return;
  PlannedPart& part = parts[num_sent_[node]++];
  v1::LayerRequest* layer = message_.mutable_layer();
  std::string latent = std::move(*layer->mutable_latent());  // keeps memory
  latent.clear();
  for (const int32_t token : part.rows) {
    latent.append(
        reinterpret_cast<const char*>(&latent_[size_t(token) * latent_size_]),
        latent_size_ * sizeof(float));
  }
  layer->Swap(&part.request);
  layer->mutable_latent()->swap(latent);
  clients_.Send(node, message_);
  layer->mutable_latent()->swap(latent);
  layer->Swap(&part.request);
  *layer->mutable_latent() = std::move(latent);
}

absl::Status LayerExchange::Handle(const NodeEvent& event) {
  switch (event.kind) {
    case NodeEvent::Kind::kNone:
      return absl::OkStatus();
    case NodeEvent::Kind::kSent:
      SendNext(event.node);
      return absl::OkStatus();
    case NodeEvent::Kind::kReply:
      return TakeReply(event.node);
    case NodeEvent::Kind::kClosed:
      // Without open parts it is the next layer's matter.
      if (reduction_.num_open(event.node) == 0) return absl::OkStatus();
      return Lost(event.node, clients_.close_status(event.node));
  }
  return absl::OkStatus();
}

absl::Status LayerExchange::TakeReply(int node) {
  const v1::LayerReply& reply = clients_.reply(node);
  const absl::StatusOr<ReplyUse> use = reduction_.Add(node, reply);
  if (!use.ok()) return AddContext(use.status(), At(node));
  if (*use == ReplyUse::kDropped) {
    ++work_[node].replies_dropped;
  } else {
    AddWork(reply, &work_[node]);
  }
  return absl::OkStatus();
}

void LayerExchange::Forget(uint64_t epoch, uint64_t step) {
  v1::NodeRequest message;
  message.mutable_cancel()->set_epoch(epoch);
  message.mutable_cancel()->set_step(step);
  const absl::Time patience = absl::Now() + kForgetPatience;
  for (int node = 0; node < clients_.num_nodes(); ++node) {
    while (clients_.connected(node) && !clients_.can_send(node) &&
           clients_.Next(patience).kind != NodeEvent::Kind::kNone) {
    }
    if (clients_.can_send(node)) {
      clients_.Send(node, message);
    } else {
      clients_.Close(node);
    }
  }
}

int64_t LayerExchange::largest_send_bytes() const {
  size_t rows = 0;
  for (int node = 0; node < plan_.num_nodes(); ++node) {
    size_t node_rows = 0;
    for (const PlannedPart& part : plan_.parts(node)) {
      node_rows += part.rows.size();
    }
    rows = std::max(rows, node_rows);
  }
  return static_cast<int64_t>(rows * latent_size_ * sizeof(float));
}

// REQUIRES: the node owes an answer.
absl::Status LayerExchange::Lost(int node, const absl::Status& why) const {
  return AddContext(
      why, fmt::format("layer {} expert {}", plan_.id().layer,
                       LowestExpert(reduction_.first_open_part(node))));
}

absl::Status LayerExchange::Overdue() const {
  std::string nodes;
  for (int node = 0; node < plan_.num_nodes(); ++node) {
    if (reduction_.num_open(node) == 0) continue;
    if (!nodes.empty()) nodes += ", ";
    nodes += clients_.name(node);
  }
  return absl::DeadlineExceededError(fmt::format(
      "layer {}: no answer in time from node {}", plan_.id().layer, nodes));
}

std::string LayerExchange::At(int node) const {
  return fmt::format("layer {}: node {}", plan_.id().layer,
                     clients_.name(node));
}

}  // namespace deltafin
