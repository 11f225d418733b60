// How NodeRegistry tells members what to copy.

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/cluster/join_check.h"
#include "coordinator/cluster/node_registry.h"
#include "coordinator/cluster/placement_report.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// After this long without what nobody holds, another member is to get it.
constexpr absl::Duration kTurn = absl::Minutes(10);
// When to ask again: the plan is being made; there was something to do; there
// was nothing.
constexpr absl::Duration kSoon = absl::Milliseconds(250);
constexpr absl::Duration kAgain = absl::Seconds(1);
constexpr absl::Duration kIdle = absl::Seconds(3);

uint32_t ToMilliseconds(absl::Duration duration) {
  return static_cast<uint32_t>(absl::ToInt64Milliseconds(duration));
}

void ToProto(const ExpertRun& run, v1::CopyOrder* order) {
  order->set_layer(static_cast<uint32_t>(run.key.layer));
  order->set_expert(static_cast<uint32_t>(run.key.expert));
  order->set_first_slice(static_cast<uint32_t>(run.slices.first));
  order->set_num_slices(static_cast<uint32_t>(run.slices.count));
}

void ToProto(const CopyAnswer& answer, v1::NextCopiesReply* reply) {
  for (const OrderedRun& ordered : answer.orders) {
    v1::CopyOrder* const order = reply->add_orders();
    ToProto(ordered.run, order);
    order->mutable_owners()->Assign(ordered.owners.begin(),
                                    ordered.owners.end());
  }
  for (const ExpertRun& run : answer.surplus) {
    ToProto(run, reply->add_surplus());
  }
  reply->set_missing_slices(static_cast<uint64_t>(answer.missing));
}

bool AnyWanted(const Placement& placement) {
  for (int slot = 0; slot < placement.num_slots(); ++slot) {
    if (placement.member(slot).is_wanted()) return true;
  }
  return false;
}

bool HasMember(const CopyPlan& plan, int slot, const std::string& id) {
  return slot < plan.placement->num_slots() &&
         plan.placement->member(slot).id == id;
}

}  // namespace

std::vector<CopyPeer> NodeRegistry::Peers(int num_slots) const {
  std::vector<CopyPeer> peers(num_slots);
  for (int slot = 0; slot < std::min(num_slots, table_.num_slots()); ++slot) {
    const MemberRecord& record = table_.at(slot);
    CopyPeer& peer = peers[slot];
    // Others are reached by the engine alone.
    const bool has_address =
        record.life.has_joined || record.name.find(':') != std::string::npos;
    if (has_address) peer.address = record.name;
    peer.has_source = record.has_source;
    peer.queue_depth = record.load.counters().queue_depth();
    if (record.capacity.disk_bytes() > 0 && options_.extent.slice_bytes > 0) {
      const uint64_t room =
          record.capacity.disk_free_bytes() / options_.extent.slice_bytes;
      // More than a model has is as good.
      peer.room = static_cast<int64_t>(
          std::min<uint64_t>(room, 2 * options_.extent.num_pairs()));
    }
  }
  return peers;
}

absl::StatusOr<v1::NextCopiesReply> NodeRegistry::NextCopies(
    const v1::NextCopiesRequest& request) {
  RETURN_IF_ERROR(CheckNextCopiesFields(request));
  std::shared_ptr<const CopyPlan> plan;
  std::vector<CopyPeer> peers;
  CopyRequest wanted;
  CopyCursor cursor;
  v1::NextCopiesReply reply;
  reply.set_bytes_per_second(options_.copy_bytes_per_second);
  {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(MemberRecord* const record,
                     RequireProcess(request.node_id(), request.incarnation()));
    record->has_source = request.has_source();
    Settle();
    reply.set_epoch(placement_->epoch());
    wanted.slot = table_.FindId(request.node_id());
    if (plan_ == nullptr || !HasMember(*plan_, wanted.slot, record->id)) {
      reply.set_not_planned(true);
      reply.set_retry_ms(ToMilliseconds(kSoon));
      return reply;
    }
    plan = plan_;
    peers = Peers(plan->placement->num_slots());
    cursor = record->copy_cursor;
    wanted.turn = static_cast<uint64_t>(clock_.Elapsed() / kTurn);
  }
  wanted.max_orders = static_cast<int>(request.max_orders());
  wanted.coordinator_supplies = options_.supplies_slices;
  const CopyAnswer answer = deltafin::NextCopies(*plan, peers, wanted, &cursor);
  ToProto(answer, &reply);
  reply.set_retry_ms(
      ToMilliseconds(plan->placement->epoch() != reply.epoch()
                         ? kSoon
                         : (answer.missing > 0 ? kAgain : kIdle)));
  MutexLock lock(mutex_);
  MemberRecord* const record =
      FindProcess(request.node_id(), request.incarnation());
  if (record == nullptr) return reply;
  record->copy_cursor = cursor;
  record->copy_orders += answer.orders.size();
  return reply;
}

bool NodeRegistry::KeepsShare(const MemberRecord& record) const {
  if (record.is_free() || record.life.is_draining) return false;
  if (record.state == MemberState::kServing) return true;
  return record.has_served &&
         clock_.Elapsed() - record.served_last <= options_.rebalance_after;
}

Placement NodeRegistry::CopyCut(const PlacementOptions& options,
                                const std::set<int>& without) const {
  std::vector<Member> members;
  std::vector<int> sharing;
  for (int slot = 0; slot < placement_->num_slots(); ++slot) {
    members.push_back(placement_->member(slot));
    Member& member = members.back();
    const bool is_out = without.contains(slot);
    if (!is_out && KeepsShare(table_.at(slot))) {
      member.state = MemberState::kServing;
      sharing.push_back(slot);
    } else if (is_out && member.can_work()) {
      member.state = MemberState::kDraining;
    }
  }
  const std::vector<MemberWeight> weights = Weigh(sharing);
  for (size_t i = 0; i < sharing.size(); ++i) {
    members[sharing[i]].weight = weights[i].weight;
  }
  return Placement(placement_->epoch(), options, std::move(members));
}

void NodeRegistry::PlanCopies() {
  std::shared_ptr<const Placement> placement;
  std::shared_ptr<const CopyPlan> before;
  std::optional<Placement> cut;
  {
    MutexLock lock(mutex_);
    if (clock_.Elapsed() - started_ < options_.copies_begin_after) return;
    placement = placement_;
    before = plan_;
    cut.emplace(CopyCut(options_.placement, {}));
  }
  if (before != nullptr && before->placement == placement &&
      before->meant->IsOf(*cut)) {
    return;
  }
  std::shared_ptr<const CopyPlan> plan =
      CopyPlan::Make(std::move(placement), *cut, options_.extent, before.get());
  MutexLock lock(mutex_);
  plan_ = std::move(plan);
}

absl::StatusOr<v1::PlacementReport> NodeRegistry::ReportPlacement(
    const v1::GetPlacementRequest& request) const {
  std::optional<Placement> placement;
  {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(Placement found, PlacementFor(request));
    placement.emplace(std::move(found));
  }
  ASSIGN_OR_RETURN(
      v1::PlacementReport report,
      deltafin::ReportPlacement(*placement, options_.extent, request));
  report.set_copy_bytes_per_second(options_.copy_bytes_per_second);
  return report;
}

absl::StatusOr<Placement> NodeRegistry::PlacementFor(
    const v1::GetPlacementRequest& request) const {
  if (request.copies() > kMaxCopies) {
    return absl::InvalidArgumentError(
        fmt::format("{} copies: at most {}", request.copies(), kMaxCopies));
  }
  if (request.without_size() > MemberTable::kMaxMembers) {
    return absl::InvalidArgumentError(
        fmt::format("without {} nodes: a cluster has at most {}",
                    request.without_size(), MemberTable::kMaxMembers));
  }
  PlacementOptions options = options_.placement;
  if (request.copies() > 0) options.copies = static_cast<int>(request.copies());
  std::set<int> without;
  const std::vector<NodeName> names = NodeNames();
  for (const std::string& node : request.without()) {
    ASSIGN_OR_RETURN(const int found, FindNode(names, node));
    if (names[found].slot >= 0) without.insert(names[found].slot);
  }
  Placement cut = CopyCut(options, without);
  if (without.empty() || AnyWanted(cut)) return cut;
  return absl::InvalidArgumentError(
      "no node would be left in service; leave one out of --without");
}

SliceBooks NodeRegistry::BooksOf(int slot) const {
  const MemberRecord& record = table_.at(slot);
  SliceBooks books;
  books.copy_orders = record.copy_orders;
  if (plan_ == nullptr || !HasMember(*plan_, slot, record.id)) return books;
  books.meant = plan_->meant->all(slot).size();
  books.missing = plan_->missing(slot);
  return books;
}

}  // namespace deltafin
