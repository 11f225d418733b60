#include "coordinator/engine/layer_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// How often `stopped` is asked, and nodes are looked after, while nothing
// arrives.
constexpr absl::Duration kPollInterval = absl::Milliseconds(5);
// How long Forget waits for a message that is half out.
constexpr absl::Duration kForgetPatience = absl::Milliseconds(200);

}  // namespace

LayerExchange::LayerExchange(const LayerExchangeOptions& options,
                             NodeLinks& links, ClusterView& view,
                             const ElementwiseKernel& kernel, int latent_size)
    : options_(options),
      links_(links),
      view_(view),
      reduction_(plan_, kernel, latent_size),
      watch_(options.stall_after),
      hedges_(options.hedge_budget),
      latent_size_(latent_size) {}

void LayerExchange::Begin(const LayerId& id, const RoutedTokens& routed) {
  Grow(links_.num_slots());
  if (id.step != id_.step) {
    Tend();
    AskRoundTrips(absl::Now());
  }
  for (size_t node = 0; node < work_.size(); ++node) {
    work_[node] = NodeWork();
    work_[node].replies_dropped = std::exchange(num_late_[node], 0);
  }
  // Not out yet: too late.
  expected_.DropAll();
  id_ = id;
  routed_ = routed;
  begun_ = absl::Now();
  PlanLayer(begun_);
}

void LayerExchange::PlanLayer(absl::Time now) {
  Grow(links_.num_slots());
  UpdateFitness(now);
  assignment_.Plan(links_.placement(), id_.layer, routed_, fitness_);
  nobody_ = assignment_.runs(routed_.experts[0]).empty();
  plan_.Build(
      id_, routed_, links_.num_slots(),
      [this](int32_t expert, std::vector<NodeRun>* runs) {
        const std::span<const NodeRun> assigned = assignment_.runs(expert);
        runs->assign(assigned.begin(), assigned.end());
      },
      [this](int32_t expert) { return assignment_.units(expert); });
  reduction_.Begin();
  std::fill(num_sent_.begin(), num_sent_.end(), 0);
  watch_.Begin(links_.num_slots(), now);
  mended_ = now;
  mend_now_ = true;
  int64_t num_slices = 0;
  for (int node = 0; node < plan_.num_nodes(); ++node) {
    for (const PlannedPart& part : plan_.parts(node)) {
      num_slices += static_cast<int64_t>(part.num_slices);
    }
    SendNext(node);
  }
  hedges_.Earn(num_slices);
}

void LayerExchange::Grow(int num_nodes) {
  plan_.Grow(num_nodes);
  num_sent_.resize(num_nodes);
  watch_.Grow(num_nodes);
  fitness_.resize(num_nodes);
  round_trips_.resize(num_nodes);
  expected_.Grow(num_nodes);
  work_.resize(num_nodes);
  num_late_.resize(num_nodes);
}

void LayerExchange::Tend() {
  Grow(links_.num_slots());
  while (true) {
    const NodeEvent event = links_.Next(absl::UnixEpoch());
    if (event.kind == NodeEvent::Kind::kNone) return;
    if (event.kind != NodeEvent::Kind::kReply) continue;
    links_.MarkAlive(event.node);
    ++num_late_[event.node];
  }
}

void LayerExchange::AskRoundTrips(absl::Time now) {
  for (int node = 0; node < links_.num_slots(); ++node) {
    round_trips_[node] = costs_.is_stale(node, now) ? view_.RoundTrip(node)
                                                    : absl::ZeroDuration();
  }
}

void LayerExchange::UpdateFitness(absl::Time now) {
  for (int node = 0; node < links_.num_slots(); ++node) {
    NodeFitness& fitness = fitness_[node];
    fitness.fit = links_.is_fit(node);
    fitness.known = costs_.knows(node);
    fitness.cost = costs_.CostOf(node, now, round_trips_[node]);
  }
}

absl::Status LayerExchange::Run(const std::function<bool()>& stopped,
                                absl::Time deadline) {
  while (nobody_ || !plan_.complete()) {
    if (stopped()) return absl::CancelledError("step abandoned");
    const absl::Time now = absl::Now();
    if (nobody_) RETURN_IF_ERROR(AwaitAnybody(now));
    if (now >= deadline) return Overdue();
    if (mend_now_ || now - mended_ >= kPollInterval) RETURN_IF_ERROR(Mend(now));
    const absl::Time wake =
        std::min({now + kPollInterval, deadline, Hedge(now)});
    RETURN_IF_ERROR(Handle(links_.Next(wake)));
  }
  if (absl::Status status = reduction_.status(); !status.ok()) {
    return AddContext(status, At(reduction_.error_node()));
  }
  return absl::OkStatus();
}

// The cluster is empty: plans as soon as it is not.
absl::Status LayerExchange::AwaitAnybody(absl::Time now) {
  links_.Refresh(now);
  PlanLayer(now);
  if (!nobody_ || now - begun_ < options_.owner_patience) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      fmt::format("layer {}: the cluster has no node; start one", id_.layer));
}

void LayerExchange::SendNext(int node) {
  const std::span<PlannedPart> parts = plan_.parts(node);
  while (num_sent_[node] < parts.size() &&
         parts[num_sent_[node]].state != PartState::kOpen) {
    ++num_sent_[node];
  }
  if (!links_.connected(node) || !links_.clients().can_send(node)) return;
  if (num_sent_[node] == parts.size()) {
    const v1::NodeRequest* expected = expected_.message(node);
    if (expected != nullptr) links_.clients().Send(node, *expected);
    expected_.Drop(node);
    return;
  }
  PlannedPart& part = parts[num_sent_[node]++];
  v1::LayerRequest* layer = message_.mutable_layer();
  std::string latent = std::move(*layer->mutable_latent());  // keeps memory
  latent.clear();
  for (const int32_t token : part.rows) {
    latent.append(reinterpret_cast<const char*>(
                      &routed_.latent[size_t(token) * latent_size_]),
                  latent_size_ * sizeof(float));
  }
  layer->Swap(&part.request);
  layer->mutable_latent()->swap(latent);
  links_.clients().Send(node, message_);
  layer->mutable_latent()->swap(latent);
  layer->Swap(&part.request);
  *layer->mutable_latent() = std::move(latent);
  part.sent = absl::Now();
  part.stream = links_.stream(node);
}

absl::Status LayerExchange::Handle(const NodeEvent& event) {
  switch (event.kind) {
    case NodeEvent::Kind::kNone:
      return absl::OkStatus();
    case NodeEvent::Kind::kOpened:
      mend_now_ = true;
      return absl::OkStatus();
    case NodeEvent::Kind::kSent:
      SendNext(event.node);
      return absl::OkStatus();
    case NodeEvent::Kind::kReply:
      return TakeReply(event.node);
    case NodeEvent::Kind::kClosed:
      costs_.Forget(event.node);
      hedges_.Forget(event.node);
      expected_.Forget(event.node);
      mend_now_ = true;
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status LayerExchange::TakeReply(int node) {
  const v1::LayerReply& reply = links_.clients().reply(node);
  const absl::Time now = absl::Now();
  const absl::Time heard_before = watch_.last_heard(node);
  watch_.Heard(node, now);
  links_.MarkAlive(node);
  const absl::StatusOr<ReplyUse> use = reduction_.Add(node, reply);
  if (use.ok()) {
    if (*use == ReplyUse::kDropped) {
      ++work_[node].replies_dropped;
    } else {
      Learn(node, reply, heard_before, now);
    }
    return absl::OkStatus();
  }
  const absl::Status status = AddContext(use.status(), At(node));
  if (!reduction_.node_refused()) {
    // Not to be trusted with any of this layer.
    for (PlannedPart& part : plan_.parts(node)) {
      part.refused_by.push_back(node);
      part.refusal = status;
    }
    links_.HangUp(node, status);
  } else if (absl::IsInvalidArgument(status)) {
    return status;
  } else {
    PlannedPart& part = plan_.part({node, static_cast<int>(reply.part())});
    part.refused_by.push_back(node);
    part.refusal = status;
    // Who has not everything may have been asked to fetch.
    const bool may_lack = links_.placement().member(node).holdings != nullptr;
    if (!may_lack || !LacksSlices(status)) view_.MemberFailed(node, status);
  }
  mend_now_ = true;
  return absl::OkStatus();
}

bool LayerExchange::TakesHints(int node) const {
  return options_.read_ahead && expected_.pays(node) && links_.is_fit(node);
}

bool LayerExchange::WantsHints() const {
  for (int node = 0; node < links_.num_slots(); ++node) {
    if (TakesHints(node)) return true;
  }
  return false;
}

void LayerExchange::Expect(int layer, std::span<const int32_t> experts) {
  expected_.Plan(links_.placement(), layer, experts);
  for (int node = 0; node < links_.num_slots(); ++node) {
    if (!TakesHints(node)) expected_.Drop(node);
    SendNext(node);
  }
}

void LayerExchange::Learn(int node, const v1::LayerReply& reply,
                          absl::Time heard_before, absl::Time now) {
  AddReply(reply, &work_[node]);
  expected_.Learn(node, reply);
  const PlannedPart& part = plan_.part({node, static_cast<int>(reply.part())});
  PartTiming timing;
  timing.elapsed = now - part.sent;
  timing.queue = absl::Microseconds(reply.timings().queue_us());
  timing.read = absl::Microseconds(reply.timings().read_us());
  timing.compute = absl::Microseconds(reply.timings().compute_us());
  timing.slices = static_cast<int64_t>(part.num_slices);
  timing.bytes_read = static_cast<int64_t>(reply.bytes_read());
  if (costs_.knows(node)) {
    hedges_.Observe(node, now - std::max(part.sent, heard_before),
                    costs_.Expected(node, part.units));
  }
  if (part.is_hedge) ++work_[node].hedges_won;
  costs_.Observe(node, timing, part.units, static_cast<int>(part.rows.size()),
                 now);
  view_.PartAnswered(node, timing);
  work_[node].last = timing;
  work_[node].answered_after = now - begun_;
}

void LayerExchange::Forget(uint64_t epoch, uint64_t step) {
  v1::NodeRequest message;
  message.mutable_cancel()->set_epoch(epoch);
  message.mutable_cancel()->set_step(step);
  ExpertClients& clients = links_.clients();
  const absl::Time patience = absl::Now() + kForgetPatience;
  for (int node = 0; node < links_.num_slots(); ++node) {
    while (links_.connected(node) && !clients.can_send(node) &&
           links_.Next(patience).kind != NodeEvent::Kind::kNone) {
    }
    if (!links_.connected(node)) continue;
    if (clients.can_send(node)) {
      clients.Send(node, message);
    } else {
      links_.HangUp(node, absl::UnavailableError(fmt::format(
                              "node {}: takes no message", links_.name(node))));
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

absl::Status LayerExchange::Overdue() const {
  std::string nodes;
  for (int node = 0; node < plan_.num_nodes(); ++node) {
    if (plan_.num_open(node) == 0) continue;
    if (!nodes.empty()) nodes += ", ";
    nodes += links_.name(node);
  }
  return absl::DeadlineExceededError(fmt::format(
      "layer {}: no answer in time from node {}", id_.layer, nodes));
}

std::string LayerExchange::At(int node) const {
  return fmt::format("layer {}: node {}", id_.layer, links_.name(node));
}

}  // namespace deltafin
