// What NodeRegistry tells of its members.

#include <utility>

#include "coordinator/cluster/node_registry.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr double kMedian = 0.5;
constexpr double kTail = 0.99;
// So little that it is the first of all.
constexpr double kLeast = 1e-3;

// The most useful thing to know of a member that is not well.
std::string RemarkOf(const MemberRecord& record) {
  if (!record.weight_remark.empty()) return record.weight_remark;
  if (record.capacity.throttled()) {
    return fmt::format(
        "its drive throttles: it reads less than 0.6 of the rate it once "
        "sustained, now {:.3g} GB/s",
        record.capacity.read_bytes_per_second() / 1e9);
  }
  return record.last_error;
}

void Describe(const MemberRecord& record, const SliceBooks& books,
              absl::Duration now, v1::NodeHealth* health) {
  health->set_name(record.name);
  health->set_node_id(record.id);
  health->set_state(std::string(NameOf(record.state)));
  health->set_version(record.identity.version());
  health->set_round_trip_p50_us(record.round_trips.Percentile(kMedian));
  health->set_round_trip_p99_us(record.round_trips.Percentile(kTail));
  *health->mutable_capacity() = record.capacity;
  *health->mutable_load() = record.load;
  health->set_errors(record.errors);
  health->set_last_seen_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(now - record.last_seen)));
  health->set_remark(RemarkOf(record));
  health->set_layer_p50_us(record.layer_parts.Percentile(kMedian));
  health->set_layer_p99_us(record.layer_parts.Percentile(kTail));
  health->set_meant_slices(static_cast<uint64_t>(books.meant));
  health->set_missing_slices(static_cast<uint64_t>(books.missing));
  health->set_copy_orders(books.copy_orders);
}

}  // namespace

absl::Duration NodeRegistry::RoundTrip(int slot) const {
  MutexLock lock(mutex_);
  if (slot >= table_.num_slots()) return absl::ZeroDuration();
  return absl::Microseconds(table_.at(slot).round_trips.Percentile(kLeast));
}

v1::ClusterHealth NodeRegistry::health() const {
  MutexLock lock(mutex_);
  v1::ClusterHealth health;
  const Judgement judgement = Judge();
  health.set_verdict(judgement.verdict);
  health.set_reason(judgement.reason);
  health.set_epoch(placement_->epoch());
  health.set_copies_wanted(static_cast<uint32_t>(options_.placement.copies));
  const CopyCounts& copies = Copies();
  health.set_copies_least(static_cast<uint32_t>(copies.least));
  health.set_uncovered_slices(static_cast<uint64_t>(copies.none));
  health.set_scarce_slices(static_cast<uint64_t>(copies.scarce));
  health.set_model(options_.model);
  health.set_coordinator_id(epochs_.coordinator_id());
  for (int slot = 0; slot < table_.num_slots(); ++slot) {
    const MemberRecord& record = table_.at(slot);
    if (record.is_free() || record.has_left) continue;
    v1::NodeHealth* const node = health.add_nodes();
    Describe(record, BooksOf(slot), clock_.Elapsed(), node);
    node->set_share(placement_->share(slot));
  }
  return health;
}

Judgement NodeRegistry::judgement() const {
  MutexLock lock(mutex_);
  return Judge();
}

Judgement NodeRegistry::Judge() const {
  std::vector<MemberSummary> members;
  for (int slot = 0; slot < table_.num_slots(); ++slot) {
    const MemberRecord& record = table_.at(slot);
    if (record.is_free() || record.has_left) continue;
    members.push_back({record.name, record.state});
  }
  CopyState state;
  state.wanted = options_.placement.copies;
  state.counts = Copies();
  state.num_pairs = options_.extent.num_pairs();
  for (int slot = 0; slot < placement_->num_slots(); ++slot) {
    const Member& member = placement_->member(slot);
    state.can_be_got |=
        IsInService(member) && member.fetches == FetchReach::kAll;
  }
  return JudgeCluster(members, state);
}

const CopyCounts& NodeRegistry::Copies() const {
  if (copies_.epoch != placement_->epoch()) {
    copies_ = {placement_->epoch(), CountCopies(*placement_, options_.extent,
                                                options_.placement.copies)};
  }
  return copies_.copies;
}

std::vector<ClusterEvent> NodeRegistry::events() const {
  MutexLock lock(mutex_);
  return {events_.events().begin(), events_.events().end()};
}

void NodeRegistry::NoteEvent(const MemberRecord& record, MemberState before) {
  ClusterEvent event;
  event.time = clock_.Now();
  event.node = record.name;
  event.node_id = record.id;
  event.from = std::string(NameOf(before));
  event.to = record.has_left ? "left" : std::string(NameOf(record.state));
  const bool in_trouble = record.state == MemberState::kSuspect;
  if (in_trouble) {
    event.why = record.life.failure ? record.last_error : "no heartbeat";
  }
  events_.Add(std::move(event));
}

std::vector<ConnectedMember> NodeRegistry::members_in_service() const {
  MutexLock lock(mutex_);
  std::vector<ConnectedMember> members;
  for (int slot = 0; slot < table_.num_slots(); ++slot) {
    const MemberRecord& record = table_.at(slot);
    if (record.state != MemberState::kServing &&
        record.state != MemberState::kDraining) {
      continue;
    }
    members.push_back({record.name, record.channel, record.identity});
  }
  return members;
}

}  // namespace deltafin
