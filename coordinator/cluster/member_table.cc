#include "coordinator/cluster/member_table.h"

#include <algorithm>

namespace deltafin {
namespace {

// A state or two a minute is news; more is flapping.
constexpr int kLinesPerMinute = 6;

bool IsGone(const MemberRecord& record) {
  return !record.is_free() && record.state == MemberState::kGone &&
         record.life.has_ended;
}

}  // namespace

int MemberTable::FindId(const std::string& id) const {
  for (int slot = 0; slot < num_slots(); ++slot) {
    if (!records_[slot].is_free() && records_[slot].id == id) return slot;
  }
  return -1;
}

int MemberTable::FindNamed(const std::string& name,
                           const std::string& home) const {
  for (int slot = 0; slot < num_slots(); ++slot) {
    const MemberRecord& record = records_[slot];
    if (record.life.is_named && (record.name == name || record.home == home)) {
      return slot;
    }
  }
  return -1;
}

int MemberTable::Allocate() {
  for (int slot = 0; slot < num_slots(); ++slot) {
    if (records_[slot].is_free()) return slot;
  }
  if (num_slots() < kMaxMembers) {
    records_.emplace_back();
    log_lines_.emplace_back(kLinesPerMinute);
    return num_slots() - 1;
  }
  const int slot = LongestGone();
  if (slot >= 0) Free(slot);
  return slot;
}

void MemberTable::ForgetGone(absl::Duration now, absl::Duration after) {
  auto num_gone = std::count_if(records_.begin(), records_.end(), IsGone);
  for (int slot = LongestGone(); slot >= 0; slot = LongestGone()) {
    if (num_gone <= kMaxGone && now - records_[slot].gone_since <= after) {
      return;
    }
    Free(slot);
    --num_gone;
  }
}

int MemberTable::LongestGone() const {
  int longest = -1;
  for (int slot = 0; slot < num_slots(); ++slot) {
    if (!IsGone(records_[slot])) continue;
    if (longest < 0 ||
        records_[slot].gone_since < records_[longest].gone_since) {
      longest = slot;
    }
  }
  return longest;
}

}  // namespace deltafin
