// How NodeRegistry takes members out of service and back.

#include <algorithm>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "coordinator/cluster/node_registry.h"

namespace deltafin {
namespace {

// Ids that are kept, whether or not their nodes come back.
constexpr size_t kMaxDrained = 256;

}  // namespace

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
  if (only_here > 0 && placement_->member(slot).can_work()) {
    return RefuseDrain(record.name, only_here);
  }
  if (!record.id.empty()) {
    if (drained_.size() >= kMaxDrained) {
      return absl::ResourceExhaustedError(fmt::format(
          "{} nodes are drained; take some back with --undo", kMaxDrained));
    }
    drained_.insert(record.id);
  }
  if (!record.life.is_draining) {
    spdlog::info("node {} ({:.8}) is taken out of service", record.name,
                 record.id);
    record.draining_since = clock_.Elapsed();
  }
  record.life.is_draining = true;
  Settle();
  return slot;
}

absl::Status NodeRegistry::EndDrain(const std::string& node) {
  MutexLock lock(mutex_);
  const std::vector<NodeName> names = NodeNames();
  ASSIGN_OR_RETURN(const int found, FindNode(names, node));
  drained_.erase(names[found].id);
  if (names[found].slot >= 0) {
    table_.at(names[found].slot).life.is_draining = false;
  }
  Settle();
  return absl::OkStatus();
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
  facts.quiet = now - std::max(record.draining_since, record.last_answer);
  facts.heartbeat = options_.limits.heartbeat;
  facts.was_heard =
      !record.life.has_joined || record.life.heard > record.draining_since;
  facts.requests_here = record.load.counters().queue_depth();
  return facts;
}

}  // namespace deltafin
