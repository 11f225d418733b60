// How NodeRegistry takes members out of service and back.

#include <algorithm>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "coordinator/cluster/drain_file.h"
#include "coordinator/cluster/node_registry.h"

namespace deltafin {

std::vector<NodeName> NodeRegistry::NodeNames() const {
  std::vector<NodeName> names;
  for (int slot = 0; slot < table_.num_slots(); ++slot) {
    const MemberRecord& record = table_.at(slot);
    if (!record.is_free()) names.push_back({slot, record.id, record.name});
  }
  for (const std::string& id : drained_) {
    const bool is_known =
        std::any_of(names.begin(), names.end(),
                    [&id](const NodeName& name) { return name.id == id; });
    if (!is_known) names.push_back({-1, id, ""});
  }
  return names;
}

absl::StatusOr<int> NodeRegistry::BeginDrain(const std::string& node) {
  MutexLock lock(mutex_);
  const std::vector<NodeName> names = NodeNames();
  ASSIGN_OR_RETURN(const int found, FindNode(names, node));
  const int slot = names[found].slot;
  if (slot < 0) {
    return absl::NotFoundError(fmt::format(
        "node {} is drained and not here: it may stay away", names[found].id));
  }
  MemberRecord& record = table_.at(slot);
  const int64_t only_here = SlicesOnlyOn(slot, *placement_, options_.extent);
  if (only_here > 0 && placement_->member(slot).can_work() &&
      !SomebodyCopies(slot)) {
    return RefuseDrain(record.name, only_here);
  }
  if (!record.id.empty() && !drained_.contains(record.id)) {
    if (drained_.size() >= DrainFile::kMaxIds) {
      return absl::ResourceExhaustedError(
          fmt::format("{} nodes are drained; take some back with --undo",
                      DrainFile::kMaxIds));
    }
    drained_.insert(record.id);
    KeepDrained();
  }
  if (!record.life.is_draining) {
    spdlog::info("node {} ({:.8}) is taken out of service", record.name,
                 record.id);
    record.draining_since = clock_.Elapsed();
    record.alone_at_drain = only_here;
  }
  record.life.is_draining = true;
  Settle();
  return slot;
}

absl::Status NodeRegistry::EndDrain(const std::string& node) {
  MutexLock lock(mutex_);
  const std::vector<NodeName> names = NodeNames();
  ASSIGN_OR_RETURN(const int found, FindNode(names, node));
  if (drained_.erase(names[found].id) > 0) KeepDrained();
  if (names[found].slot >= 0) {
    table_.at(names[found].slot).life.is_draining = false;
  }
  Settle();
  return absl::OkStatus();
}

void NodeRegistry::KeepDrained() {
  if (options_.keep_drained != nullptr) options_.keep_drained(drained_);
}

bool NodeRegistry::SomebodyCopies(int but_slot) const {
  for (int slot = 0; slot < placement_->num_slots(); ++slot) {
    const Member& member = placement_->member(slot);
    if (slot != but_slot && member.is_wanted() &&
        member.fetches != FetchReach::kNothing) {
      return true;
    }
  }
  return false;
}

DrainFacts NodeRegistry::drain_facts(int slot) const {
  MutexLock lock(mutex_);
  const absl::Duration now = clock_.Elapsed();
  const MemberRecord& record = table_.at(slot);
  DrainFacts facts;
  facts.name = record.name;
  facts.is_there = !record.is_free() && record.state != MemberState::kGone;
  facts.is_draining = record.is_free() || record.life.is_draining;
  facts.slices_only_here = SlicesOnlyOn(slot, *placement_, options_.extent);
  facts.alone_at_start = record.alone_at_drain;
  facts.others_copy = SomebodyCopies(slot);
  facts.quiet = now - std::max(record.draining_since, record.last_answer);
  facts.heartbeat = options_.limits.heartbeat;
  facts.was_heard =
      !record.life.has_joined || record.life.heard > record.draining_since;
  facts.requests_here = record.load.counters().queue_depth();
  return facts;
}

}  // namespace deltafin
