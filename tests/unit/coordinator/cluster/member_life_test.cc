#include "coordinator/cluster/member_life.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

constexpr LifeLimits kLimits;

absl::Duration At(int64_t ms) { return absl::Milliseconds(ms); }

TEST(MemberLifeTest, JoinsServesFallsSilentEnds) {
  MemberLife life;
  NoteJoin(At(0), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(100)), MemberState::kJoining);
  NoteHeartbeat(At(200), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(2200)), MemberState::kServing);
  EXPECT_EQ(StateOf(life, kLimits, At(2201)), MemberState::kSuspect);
  NoteTime(kLimits, At(5200), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(5200)), MemberState::kSuspect);
  NoteTime(kLimits, At(5201), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(5201)), MemberState::kGone);
  NoteJoin(At(9000), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(9000)), MemberState::kJoining);
}

TEST(MemberLifeTest, AJoinWithoutHeartbeatsEnds) {
  MemberLife life;
  NoteJoin(At(0), &life);
  NoteTime(kLimits, At(5001), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(5001)), MemberState::kGone);
}

TEST(MemberLifeTest, DrainingOutlivesARestartAndYieldsToTrouble) {
  MemberLife life;
  life.is_draining = true;
  NoteJoin(At(0), &life);
  NoteHeartbeat(At(0), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(0)), MemberState::kDraining);
  NoteFailure(absl::UnavailableError(""), At(0), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(0)), MemberState::kSuspect);
}

TEST(MemberLifeTest, ALostStreamOfANamedMemberHasNoTrial) {
  MemberLife life;
  life.is_named = true;
  NoteFailure(absl::UnavailableError(""), At(0), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(3'600'000)), MemberState::kSuspect);
  NoteStreamOpened(&life);
  EXPECT_EQ(StateOf(life, kLimits, At(3'600'000)), MemberState::kServing);
  NoteFailure(absl::DataLossError(""), At(0), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(10'000)), MemberState::kSuspect);
  EXPECT_EQ(StateOf(life, kLimits, At(10'001)), MemberState::kServing);
}

TEST(MemberLifeTest, ANamedMemberThatLeavesWaitsForItsStream) {
  MemberLife life;
  life.is_named = true;
  NoteJoin(At(0), &life);
  NoteHeartbeat(At(0), &life);
  NoteEnd(At(100), &life);
  EXPECT_EQ(StateOf(life, kLimits, At(60'000)), MemberState::kSuspect);
  NoteStreamOpened(&life);
  EXPECT_EQ(StateOf(life, kLimits, At(60'000)), MemberState::kServing);
}

}  // namespace
}  // namespace deltafin
