#include "coordinator/engine/node_links.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// A failure this soon is an answer, not silence: TCP sends a lost SYN again
// after a second.
constexpr absl::Duration kRefusedWithin = absl::Milliseconds(900);
// How often Connect looks whether another attempt is due.
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

}  // namespace

NodeLinks::NodeLinks(const NodeLinksOptions& options,
                     HandshakeIdentity identity, ClusterView& view)
    : options_(options),
      view_(view),
      placement_(view.placement()),
      clients_(std::move(identity)) {}

void NodeLinks::Refresh(absl::Time now) {
  placement_ = view_.placement();
  if (links_.size() < static_cast<size_t>(num_slots())) {
    links_.resize(num_slots());
  }
  for (int slot = 0; slot < num_slots(); ++slot) {
    Adopt(slot);
    Link& link = links_[slot];
    if (now - link.stalled_since > options_.stalled_for_good) {
      HangUp(slot, link.failure);
    }
    if (!placement_->member(slot).can_work() || !clients_.is_closed(slot) ||
        now < link.next_attempt) {
      continue;
    }
    clients_.Open(slot, now + options_.connect_timeout);
  }
}

// Makes the clients know the member of this slot.
void NodeLinks::Adopt(int slot) {
  const Member& member = placement_->member(slot);
  Link& link = links_[slot];
  if (link.channel == member.channel) return;
  clients_.RemoveNode(slot);
  const int64_t num_opened = link.num_opened;
  link = Link();
  link.num_opened = num_opened;
  link.channel = member.channel;
  link.retry = options_.first_retry;
  if (member.channel != nullptr) {
    clients_.SetNode(slot, {member.name, member.channel});
  }
}

absl::Status NodeLinks::ConnectAll() {
  const absl::Time begun = absl::Now();
  Refresh(begun);
  for (int slot = 0; slot < num_slots(); ++slot) {
    if (!placement_->member(slot).can_work()) continue;
    if (absl::Status status = Connect(slot, begun); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status NodeLinks::Connect(int slot, absl::Time begun) {
  const absl::Time deadline = begun + options_.connect_timeout;
  while (!connected(slot)) {
    const absl::Time now = absl::Now();
    const absl::Status& why = failure(slot);
    if (!why.ok() && (!absl::IsUnavailable(why) || now >= deadline ||
                      now - begun < kRefusedWithin)) {
      return why;
    }
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          fmt::format("node {}: no stream within {}", name(slot),
                      absl::FormatDuration(options_.connect_timeout)));
    }
    Refresh(now);
    Next(std::min(now + kPollInterval, deadline));
  }
  return absl::OkStatus();
}

const std::string& NodeLinks::name(int slot) const {
  return placement_->member(slot).name;
}

bool NodeLinks::connected(int slot) const {
  return clients_.has_node(slot) && clients_.connected(slot);
}

bool NodeLinks::is_fit(int slot) const {
  return connected(slot) &&
         links_[slot].stalled_since == absl::InfiniteFuture();
}

const absl::Status& NodeLinks::failure(int slot) const {
  return links_[slot].failure;
}

NodeEvent NodeLinks::Next(absl::Time deadline) {
  const NodeEvent event = clients_.Next(deadline);
  if (event.kind == NodeEvent::Kind::kOpened) {
    Link& link = links_[event.node];
    ++link.num_opened;
    link.failure = absl::OkStatus();
    link.retry = options_.first_retry;
    link.stalled_since = absl::InfiniteFuture();
    view_.StreamOpened(event.node, clients_.info(event.node));
  } else if (event.kind == NodeEvent::Kind::kClosed) {
    Fail(event.node, clients_.close_status(event.node));
  }
  return event;
}

void NodeLinks::HangUp(int slot, const absl::Status& why) {
  clients_.Close(slot);
  Fail(slot, why);
}

void NodeLinks::Fail(int slot, const absl::Status& why) {
  Link& link = links_[slot];
  link.failure = why;
  link.stalled_since = absl::InfiniteFuture();
  link.next_attempt = absl::Now() + link.retry;
  link.retry = std::min(2 * link.retry, options_.last_retry);
  view_.MemberFailed(slot, why);
}

void NodeLinks::MarkStalled(int slot, const absl::Status& why) {
  Link& link = links_[slot];
  if (link.stalled_since != absl::InfiniteFuture()) return;
  link.stalled_since = absl::Now();
  link.failure = why;
  view_.MemberFailed(slot, why);
}

void NodeLinks::MarkAlive(int slot) {
  links_[slot].stalled_since = absl::InfiniteFuture();
}

}  // namespace deltafin
