// coordinator/cluster/member_life.h
//
// The states of a member and what moves it from one to another. Facts are noted
// as they come; the state follows from them and the time. Pure.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/cluster/placement.h"

namespace deltafin {

struct LifeLimits {
  absl::Duration heartbeat = absl::Seconds(1);  // between two of them
  // Silent for longer: suspect.
  absl::Duration suspect_after() const { return 2 * heartbeat; }
  // Silent for longer: gone.
  absl::Duration gone_after = absl::Seconds(5);
  // A member that failed but is connected, as far as is known, gets work again
  // after this: what ailed it may be over, and only work can tell.
  absl::Duration trial_after = absl::Seconds(10);
};

// Times are those of Clock::Elapsed.
struct MemberLife {
  // Named by the user: stays a member whatever happens.
  bool is_named = false;
  // It has joined: silence counts from `heard` on. Others have no heartbeats.
  bool has_joined = false;
  bool had_heartbeat = false;  // since it joined
  bool is_draining = false;
  bool has_ended = false;  // gone; only joining again changes that
  absl::Duration heard;
  struct Failure {
    absl::Duration at;
    // UNAVAILABLE: the stream is lost. DEADLINE_EXCEEDED: it owed an answer.
    // Others: it refused, or broke its word.
    absl::StatusCode code = absl::StatusCode::kUnknown;
  };
  std::optional<Failure> failure;  // since its stream last worked
};

// joining   joined, no heartbeat yet: it may not live long enough for work
// serving   all else
// draining  is_draining
// suspect   silent for suspect_after, or failed
// gone      has_ended
MemberState StateOf(const MemberLife& life, const LifeLimits& limits,
                    absl::Duration now);

// The facts. A new process under the same id starts anew, but for is_named and
// is_draining.
void NoteJoin(absl::Duration now, MemberLife* life);
void NoteHeartbeat(absl::Duration now, MemberLife* life);
void NoteStreamOpened(MemberLife* life);
// Redeems who owed an answer.
void NoteAnswer(MemberLife* life);
void NoteFailure(const absl::Status& why, absl::Duration now, MemberLife* life);
// It left. A named member is one without heartbeats again, whose stream must
// show that it works.
void NoteEnd(absl::Duration now, MemberLife* life);
// Time passed: silence for gone_after is an end.
void NoteTime(const LifeLimits& limits, absl::Duration now, MemberLife* life);

}  // namespace deltafin
