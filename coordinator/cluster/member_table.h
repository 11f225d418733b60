// coordinator/cluster/member_table.h
//
// What a coordinator knows of each member, by slot. Bounded whatever nodes do.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/cluster/copy_orders.h"
#include "coordinator/cluster/line_budget.h"
#include "coordinator/cluster/member_life.h"
#include "coordinator/cluster/member_weights.h"
#include "coordinator/cluster/placement.h"
#include "coordinator/cluster/recent_times.h"
#include "proto/cluster.pb.h"

namespace deltafin {

struct MemberRecord {
  std::string id;    // empty: not told yet
  std::string name;  // address, "in-process"; empty: the slot is free
  std::string home;
  uint64_t incarnation = 0;
  std::shared_ptr<grpc::Channel> channel;  // null when gone
  MemberLife life;
  MemberState state = MemberState::kGone;  // as the last placement has it
  bool has_left = false;                   // gone of its own will
  absl::Duration gone_since;               // when state is kGone
  MemberSpeed speed;                       // in use, as told some time
  double weight = 1;
  std::string weight_remark;
  std::shared_ptr<const SliceSet> holdings;  // null: everything
  v1::HandshakeReply identity;
  v1::NodeCapacity capacity;
  v1::NodeLoad load;
  RecentTimes round_trips;
  RecentTimes layer_parts;
  uint64_t errors = 0;
  std::string last_error;
  absl::Duration last_seen;
  absl::Duration last_answer;  // to a part of a layer
  absl::Duration draining_since;
  bool has_served = false;
  absl::Duration served_last;  // when state was kServing
  int64_t alone_at_drain = 0;  // slices that only it had when the drain began
  bool has_source = false;     // as it last said when it asked what to copy
  CopyCursor copy_cursor;
  uint64_t copy_orders = 0;  // given to it

  bool is_free() const { return name.empty(); }
};

class MemberTable {
 public:
  static constexpr int kMaxMembers = 256;
  // Gone ones that are remembered.
  static constexpr int kMaxGone = 64;

  // Slots in use are below.
  int num_slots() const { return static_cast<int>(records_.size()); }
  MemberRecord& at(int slot) { return records_[slot]; }
  const MemberRecord& at(int slot) const { return records_[slot]; }
  // Of the slot, whoever has it.
  LineBudget& log_lines(int slot) { return log_lines_[slot]; }

  // -1: nobody.
  int FindId(const std::string& id) const;
  // One that the user named, by either.
  int FindNamed(const std::string& name, const std::string& home) const;

  // A free slot; where there is none, that of the member gone for longest. -1:
  // all members are there.
  int Allocate();
  void Free(int slot) { records_[slot] = MemberRecord(); }
  // Frees the slots of those gone for longer than `after`, and the longest
  // gone while there are more than kMaxGone.
  void ForgetGone(absl::Duration now, absl::Duration after);

 private:
  int LongestGone() const;

  std::vector<MemberRecord> records_;
  std::vector<LineBudget> log_lines_;
};

}  // namespace deltafin
