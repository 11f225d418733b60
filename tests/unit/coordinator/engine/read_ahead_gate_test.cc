#include "coordinator/engine/read_ahead_gate.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

// `count` replies, each with that many slices more.
void Reply(ReadAheadGate& gate, v1::LayerReply& reply, int count, int used,
           int wasted) {
  for (int i = 0; i < count; ++i) {
    reply.set_expected_used(reply.expected_used() + used);
    reply.set_expected_wasted(reply.expected_wasted() + wasted);
    gate.Learn(reply);
  }
}

TEST(ReadAheadGateTest, StaysOpenWhereOneInFourIsUsed) {
  ReadAheadGate gate;
  v1::LayerReply reply;
  Reply(gate, reply, 10 * ReadAheadGate::kTrial, 1, 3);
  EXPECT_TRUE(gate.open());
}

TEST(ReadAheadGateTest, ClosesWhereLessIsUsedAndTriesAgain) {
  ReadAheadGate gate;
  v1::LayerReply reply;
  Reply(gate, reply, ReadAheadGate::kTrial, 1, 4);
  EXPECT_FALSE(gate.open());
  Reply(gate, reply, ReadAheadGate::kFirstRest - 1, 0, 0);
  EXPECT_FALSE(gate.open());
  Reply(gate, reply, 1, 0, 0);
  EXPECT_TRUE(gate.open());
}

TEST(ReadAheadGateTest, RestsTwiceAsLongEachTimeUntilItPays) {
  ReadAheadGate gate;
  v1::LayerReply reply;
  Reply(gate, reply, ReadAheadGate::kTrial, 0, 1);
  Reply(gate, reply, ReadAheadGate::kFirstRest, 0, 0);
  Reply(gate, reply, ReadAheadGate::kTrial, 0, 1);
  Reply(gate, reply, 2 * ReadAheadGate::kFirstRest - 1, 0, 0);
  EXPECT_FALSE(gate.open());
  Reply(gate, reply, 1, 0, 0);
  EXPECT_TRUE(gate.open());
  Reply(gate, reply, ReadAheadGate::kTrial, 1, 0);
  Reply(gate, reply, ReadAheadGate::kTrial, 0, 1);
  Reply(gate, reply, ReadAheadGate::kFirstRest, 0, 0);
  EXPECT_TRUE(gate.open());
}

TEST(ReadAheadGateTest, ClosesWhereNothingIsReadFromTheDrive) {
  ReadAheadGate gate;
  v1::LayerReply reply;
  Reply(gate, reply, ReadAheadGate::kTrial, 0, 0);
  EXPECT_FALSE(gate.open());
}

TEST(ReadAheadGateTest, ANodeThatCountsFromZeroAgainIsNotMisread) {
  ReadAheadGate gate;
  v1::LayerReply before;
  before.set_expected_used(1000);
  gate.Learn(before);
  v1::LayerReply after;
  Reply(gate, after, ReadAheadGate::kTrial - 1, 0, 1);
  EXPECT_FALSE(gate.open());
}

}  // namespace
}  // namespace deltafin
