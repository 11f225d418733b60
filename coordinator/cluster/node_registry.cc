#include "coordinator/cluster/node_registry.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "coordinator/cluster/join_check.h"
#include "coordinator/cluster/member_weights.h"

namespace deltafin {
namespace {

// Of an error kept for the health table.
constexpr size_t kMaxErrorSize = 1024;

uint32_t ToMilliseconds(absl::Duration duration) {
  return static_cast<uint32_t>(absl::ToInt64Milliseconds(duration));
}

// Null where the node has everything.
absl::StatusOr<std::shared_ptr<const SliceSet>> ReadHoldings(
    const v1::Holdings& holdings, const ModelExtent& extent) {
  if (holdings.everything()) return std::shared_ptr<const SliceSet>();
  ASSIGN_OR_RETURN(
      SliceSet set,
      SliceSet::FromProto(holdings, extent.first_layer, extent.num_layers,
                          extent.num_experts, extent.num_slices));
  return std::make_shared<const SliceSet>(std::move(set));
}

// A node with less than everything gets the rest from others.
FetchReach ReachOf(const MemberRecord& record, bool coordinator_supplies) {
  if (record.holdings == nullptr) return FetchReach::kNothing;
  return record.has_source || coordinator_supplies ? FetchReach::kAll
                                                   : FetchReach::kMembers;
}

Member ToMember(const MemberRecord& record, bool coordinator_supplies) {
  Member member;
  member.id = record.id;
  member.name = record.name;
  member.channel = record.channel;
  member.state = record.state;
  member.weight = record.weight;
  member.holdings = record.holdings;
  member.fetches = ReachOf(record, coordinator_supplies);
  return member;
}

bool IsSame(const Member& a, const Member& b) {
  return a.id == b.id && a.name == b.name && a.channel == b.channel &&
         a.state == b.state && a.weight == b.weight &&
         a.holdings == b.holdings && a.fetches == b.fetches;
}

void KeepError(const absl::Status& why, MemberRecord* record) {
  ++record->errors;
  record->last_error = std::string(why.message().substr(0, kMaxErrorSize));
}

}  // namespace

NodeRegistry::NodeRegistry(RegistryOptions options, EpochFile epochs,
                           ChannelFactory make_channel, const Clock& clock)
    : options_(std::move(options)),
      make_channel_(std::move(make_channel)),
      clock_(clock),
      started_(clock.Elapsed()),
      epochs_(std::move(epochs)) {
  MutexLock lock(mutex_);
  drained_ = options_.drained;
  Publish();
}

void NodeRegistry::AddNamed(const std::string& name,
                            std::shared_ptr<grpc::Channel> channel) {
  MutexLock lock(mutex_);
  const int slot = table_.Allocate();
  if (slot < 0) return spdlog::error("{}: too many members", name);
  MemberRecord& record = table_.at(slot);
  record.name = name;
  record.channel = std::move(channel);
  record.life.is_named = true;
  record.last_seen = clock_.Elapsed();
  Settle();
}

absl::StatusOr<v1::JoinReply> NodeRegistry::Join(
    const v1::JoinRequest& request) {
  RETURN_IF_ERROR(CheckJoinFields(request));
  RETURN_IF_ERROR(
      CheckNodeIdentity(MakeHandshake(options_.identity), request.identity()));
  ASSIGN_OR_RETURN(std::shared_ptr<const SliceSet> holdings,
                   ReadHoldings(request.holdings(), options_.extent));
  RETURN_IF_ERROR(CheckReach(request.address(), options_.loopback_only));
  std::shared_ptr<grpc::Channel> channel = make_channel_(request.address());
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const int slot, SlotFor(request));
  Supersede(slot, request);
  Admit(request, std::move(holdings), std::move(channel), &table_.at(slot));
  epochs_.RaiseAbove(request.highest_epoch());
  Settle();
  v1::JoinReply reply;
  reply.set_coordinator_id(epochs_.coordinator_id());
  reply.set_epoch(placement_->epoch());
  reply.set_heartbeat_ms(ToMilliseconds(options_.limits.heartbeat));
  reply.set_gone_after_ms(ToMilliseconds(options_.limits.gone_after));
  return reply;
}

// The slot that the user named comes before that of the same id: its line stays
// in the table.
absl::StatusOr<int> NodeRegistry::SlotFor(const v1::JoinRequest& request) {
  const std::string& id = request.identity().node_id();
  int slot = table_.FindId(id);
  if (slot >= 0) {
    const MemberRecord& holder = table_.at(slot);
    if (holder.life.has_joined && holder.state == MemberState::kServing &&
        holder.home != request.home() && holder.name != request.address()) {
      return absl::AlreadyExistsError(fmt::format(
          "node id {} is in service at {}, and {} has it too from another "
          "data folder; a folder was copied: delete the file node_id in one "
          "of them",
          id, holder.name, request.address()));
    }
  }
  const int named = table_.FindNamed(request.address(), request.home());
  if (named >= 0) slot = named;
  if (slot < 0) slot = table_.Allocate();
  if (slot >= 0) return slot;
  return absl::ResourceExhaustedError(
      fmt::format("the cluster has {} members, and no more are accepted",
                  MemberTable::kMaxMembers));
}

void NodeRegistry::Supersede(int slot, const v1::JoinRequest& request) {
  for (int other = 0; other < table_.num_slots(); ++other) {
    const MemberRecord& record = table_.at(other);
    if (other == slot || record.is_free() || record.life.is_named) continue;
    if (record.home == request.home() || record.name == request.address() ||
        record.id == request.identity().node_id()) {
      table_.Free(other);
    }
  }
}

void NodeRegistry::Admit(const v1::JoinRequest& request,
                         std::shared_ptr<const SliceSet> holdings,
                         std::shared_ptr<grpc::Channel> channel,
                         MemberRecord* record) {
  const absl::Duration now = clock_.Elapsed();
  const bool is_known = record->incarnation == request.incarnation() &&
                        record->name == request.address() &&
                        record->life.has_joined && !record->life.has_ended;
  if (is_known) {
    record->life.heard = now;
  } else {
    NoteJoin(now, &record->life);
    record->channel = std::move(channel);
    record->round_trips = RecentTimes();
    record->layer_parts = RecentTimes();
    record->has_left = false;
    record->has_source = false;
    record->copy_cursor = CopyCursor();
  }
  record->id = request.identity().node_id();
  if (drained_.contains(record->id)) record->life.is_draining = true;
  record->name = request.address();
  record->home = request.home();
  record->incarnation = request.incarnation();
  record->holdings = std::move(holdings);
  record->identity = request.identity();
  record->capacity = request.capacity();
  record->load = request.load();
  record->last_seen = now;
}

MemberRecord* NodeRegistry::FindProcess(const std::string& id,
                                        uint64_t incarnation) {
  const int slot = table_.FindId(id);
  if (slot < 0) return nullptr;
  MemberRecord& record = table_.at(slot);
  const bool is_member = record.incarnation == incarnation &&
                         record.life.has_joined && !record.life.has_ended;
  return is_member ? &record : nullptr;
}

absl::StatusOr<MemberRecord*> NodeRegistry::RequireProcess(
    const std::string& id, uint64_t incarnation) {
  MemberRecord* const record = FindProcess(id, incarnation);
  if (record != nullptr) return record;
  return absl::NotFoundError(
      fmt::format("node {} is no member (any more): join again", id));
}

absl::StatusOr<v1::HeartbeatReply> NodeRegistry::Heartbeat(
    const v1::HeartbeatRequest& request) {
  RETURN_IF_ERROR(CheckHeartbeatFields(request));
  std::shared_ptr<const SliceSet> holdings;
  if (request.has_holdings()) {
    ASSIGN_OR_RETURN(holdings,
                     ReadHoldings(request.holdings(), options_.extent));
  }
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(MemberRecord* const record,
                   RequireProcess(request.node_id(), request.incarnation()));
  NoteHeartbeat(clock_.Elapsed(), &record->life);
  record->last_seen = clock_.Elapsed();
  record->capacity = request.capacity();
  record->load = request.load();
  if (request.has_holdings()) record->holdings = std::move(holdings);
  if (request.round_trip_us() > 0) {
    record->round_trips.Add(absl::Microseconds(request.round_trip_us()));
  }
  epochs_.RaiseAbove(request.highest_epoch());
  Settle();
  v1::HeartbeatReply reply;
  reply.set_epoch(placement_->epoch());
  reply.set_state(std::string(NameOf(record->state)));
  return reply;
}

absl::Status NodeRegistry::Leave(const v1::LeaveRequest& request) {
  RETURN_IF_ERROR(CheckLeaveFields(request));
  MutexLock lock(mutex_);
  MemberRecord* const record =
      FindProcess(request.node_id(), request.incarnation());
  if (record == nullptr) return absl::OkStatus();
  NoteEnd(clock_.Elapsed(), &record->life);
  record->has_left = !record->life.is_named;
  Settle();
  return absl::OkStatus();
}

void NodeRegistry::Tick() {
  {
    MutexLock lock(mutex_);
    Settle();
  }
  PlanCopies();
}

std::shared_ptr<const Placement> NodeRegistry::placement() const {
  MutexLock lock(mutex_);
  return placement_;
}

void NodeRegistry::StreamOpened(int slot, const v1::HandshakeReply& identity) {
  MutexLock lock(mutex_);
  if (slot >= table_.num_slots() || table_.at(slot).is_free()) return;
  MemberRecord& record = table_.at(slot);
  if (record.life.has_joined && record.id != identity.node_id()) {
    const absl::Status why = absl::FailedPreconditionError(
        fmt::format("node {} answers as {:.64} instead of {}; is its "
                    "--advertise address its own?",
                    record.name, identity.node_id(), record.id));
    KeepError(why, &record);
    NoteFailure(why, clock_.Elapsed(), &record.life);
    return Settle();
  }
  if (!record.life.has_joined) {
    record.id = identity.node_id().substr(0, kMaxErrorSize);
    record.identity = identity;
    if (drained_.contains(record.id)) record.life.is_draining = true;
  }
  record.last_seen = clock_.Elapsed();
  NoteStreamOpened(&record.life);
  Settle();
}

void NodeRegistry::MemberFailed(int slot, const absl::Status& why) {
  MutexLock lock(mutex_);
  if (slot >= table_.num_slots() || table_.at(slot).is_free()) return;
  MemberRecord& record = table_.at(slot);
  KeepError(why, &record);
  NoteFailure(why, clock_.Elapsed(), &record.life);
  Settle();
}

void NodeRegistry::PartAnswered(int slot, const PartTiming& timing) {
  MutexLock lock(mutex_);
  if (slot >= table_.num_slots() || table_.at(slot).is_free()) return;
  MemberRecord& record = table_.at(slot);
  record.layer_parts.Add(timing.elapsed);
  record.last_seen = clock_.Elapsed();
  record.last_answer = record.last_seen;
  if (!record.life.failure) return;
  NoteAnswer(&record.life);
  Settle();
}

void NodeRegistry::Settle() {
  for (int slot = 0; slot < table_.num_slots(); ++slot) SettleState(slot);
  table_.ForgetGone(clock_.Elapsed(), options_.forget_after);
  SettleWeights();
  bool same = placement_->epoch() == epochs_.current() &&
              placement_->num_slots() == table_.num_slots();
  for (int slot = 0; same && slot < table_.num_slots(); ++slot) {
    same = IsSame(placement_->member(slot),
                  ToMember(table_.at(slot), options_.supplies_slices));
  }
  if (!same) Publish();
}

void NodeRegistry::SettleState(int slot) {
  MemberRecord& record = table_.at(slot);
  if (record.is_free()) return;
  const absl::Duration now = clock_.Elapsed();
  NoteTime(options_.limits, now, &record.life);
  const MemberState before = record.state;
  record.state = StateOf(record.life, options_.limits, now);
  if (record.state == MemberState::kServing) {
    record.has_served = true;
    record.served_last = now;
  }
  if (record.state == before) return;
  const bool is_new = before == MemberState::kGone && !record.life.has_joined;
  if (is_new) return;  // the user knows whom he named
  NoteEvent(record, before);
  if (record.state == MemberState::kGone) {
    record.channel.reset();
    record.gone_since = now;
  }
  LineBudget& lines = table_.log_lines(slot);
  if (!lines.Take(now)) return;
  const int left_out = lines.TakeLeftOut();
  const bool in_trouble =
      record.state == MemberState::kSuspect && record.life.failure;
  // A named node has no id before it answered.
  const std::string id =
      record.id.empty() ? "" : fmt::format(" ({:.8})", record.id);
  spdlog::info("node {}{} is {}{}{}{}", record.name, id,
               record.has_left ? "leaving" : NameOf(record.state),
               in_trouble ? ": " : "", in_trouble ? record.last_error : "",
               left_out == 0
                   ? ""
                   : fmt::format(" ({} changes before not shown)", left_out));
}

void NodeRegistry::SettleWeights() {
  std::vector<int> slots;
  for (int slot = 0; slot < table_.num_slots(); ++slot) {
    MemberRecord& record = table_.at(slot);
    if (record.is_free() || record.state != MemberState::kServing) continue;
    record.speed =
        SpeedInUse(record.speed, {record.capacity.read_bytes_per_second(),
                                  record.capacity.kernel_bytes_per_second()});
    slots.push_back(slot);
  }
  const std::vector<MemberWeight> weights = Weigh(slots);
  for (size_t i = 0; i < slots.size(); ++i) {
    MemberRecord& record = table_.at(slots[i]);
    record.weight_remark = weights[i].remark;
    record.weight = weights[i].weight;
  }
}

std::vector<MemberWeight> NodeRegistry::Weigh(
    const std::vector<int>& slots) const {
  std::vector<MemberSpeed> speeds;
  for (const int slot : slots) speeds.push_back(table_.at(slot).speed);
  return WeighMembers(speeds,
                      options_.extent.num_slices * options_.extent.top_k);
}

void NodeRegistry::Publish() {
  std::vector<Member> members;
  for (int slot = 0; slot < table_.num_slots(); ++slot) {
    members.push_back(ToMember(table_.at(slot), options_.supplies_slices));
  }
  placement_ = std::make_shared<const Placement>(
      epochs_.Next(), options_.placement, std::move(members));
}

}  // namespace deltafin
