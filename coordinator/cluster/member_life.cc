#include "coordinator/cluster/member_life.h"

namespace deltafin {
namespace {

bool IsFailed(const MemberLife& life, const LifeLimits& limits,
              absl::Duration now) {
  if (!life.failure) return false;
  // Without heartbeats only a stream shows that there is anybody.
  if (life.failure->code == absl::StatusCode::kUnavailable &&
      !life.has_joined) {
    return true;
  }
  return now - life.failure->at <= limits.trial_after;
}

}  // namespace

MemberState StateOf(const MemberLife& life, const LifeLimits& limits,
                    absl::Duration now) {
  if (life.has_ended) return MemberState::kGone;
  if (life.has_joined && !life.had_heartbeat) return MemberState::kJoining;
  const bool silent =
      life.has_joined && now - life.heard > limits.suspect_after();
  if (silent || IsFailed(life, limits, now)) return MemberState::kSuspect;
  return life.is_draining ? MemberState::kDraining : MemberState::kServing;
}

void NoteJoin(absl::Duration now, MemberLife* life) {
  const bool is_named = life->is_named;
  const bool is_draining = life->is_draining;
  *life = MemberLife();
  life->is_named = is_named;
  life->is_draining = is_draining;
  life->has_joined = true;
  life->heard = now;
}

void NoteHeartbeat(absl::Duration now, MemberLife* life) {
  life->had_heartbeat = true;
  life->heard = now;
}

void NoteStreamOpened(MemberLife* life) { life->failure.reset(); }

void NoteAnswer(MemberLife* life) {
  if (life->failure &&
      life->failure->code == absl::StatusCode::kDeadlineExceeded) {
    life->failure.reset();
  }
}

void NoteFailure(const absl::Status& why, absl::Duration now,
                 MemberLife* life) {
  life->failure = {now, why.code()};
}

void NoteEnd(absl::Duration now, MemberLife* life) {
  if (!life->is_named) {
    life->has_ended = true;
    return;
  }
  life->has_joined = false;
  life->failure = {now, absl::StatusCode::kUnavailable};
}

void NoteTime(const LifeLimits& limits, absl::Duration now, MemberLife* life) {
  if (!life->has_joined || life->has_ended) return;
  if (now - life->heard > limits.gone_after) NoteEnd(now, life);
}

}  // namespace deltafin
