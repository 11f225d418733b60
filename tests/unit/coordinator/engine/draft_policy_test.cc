// What drafts cost and gain by a clock that the test drives.
#include "coordinator/engine/draft_policy.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

// A machine: what a step of some rows takes.
struct Machine {
  const char* name;
  double spine = 0;       // seconds, whatever the rows
  double spine_row = 0;   // per further row
  double experts = 0;     // of one row
  double fresh = 1;       // part that a further row adds
  double told_fresh = 1;  // what the policy is told of it
};

// Experts in memory, next to a spine that is read once for all rows.
constexpr Machine kMemory = {"memory", 0.6, 0.02, 0.4, 0.5, 0.5};
// Nearly all of the time goes into reading experts.
constexpr Machine kDisk = {"disk", 0.1, 0.01, 0.9, 0.9, 0.9};
// Further rows take ten times of what the routes promise.
constexpr Machine kDeceptive = {"deceptive", 0.6, 0.4, 0.4, 1, 0.1};

class Simulation {
 public:
  Simulation(const Machine& machine, double acceptance, int sequences = 1)
      : machine_(machine), acceptance_(acceptance), sequences_(sequences) {}

  // Decodes at least so many tokens of each sequence.
  void Run(int num_tokens) {
    const int64_t until = tokens_ + int64_t{num_tokens} * sequences_;
    while (tokens_ < until) Step();
  }
  // Time against the same tokens without drafts.
  double ratio() const {
    return seconds_ /
           (StepSeconds(0) * static_cast<double>(tokens_) / sequences_);
  }
  int64_t drafted() const { return drafted_; }

 private:
  double StepSeconds(int drafts) const {
    const double rows = sequences_ - 1;
    return machine_.spine + machine_.spine_row * (rows + drafts) +
           ExpertSeconds(drafts);
  }
  double ExpertSeconds(int drafts) const {
    return machine_.experts * (1 + machine_.fresh * (sequences_ - 1 + drafts));
  }
  bool Accepts() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-53 < acceptance_;
  }
  void Step() {
    policy_.BeginStep(sequences_);
    int drafts = 0, accepted = 0;
    for (int i = 0; i < sequences_; ++i) {
      const int sent = policy_.Choose(6, 7);
      DraftOutcome outcome = {6, 0, 0};
      while (outcome.trials < std::max(sent, 1)) {
        ++outcome.trials;
        if (!Accepts()) break;
        ++outcome.accepted;
      }
      policy_.AddOutcome(outcome);
      drafts += sent;
      if (sent > 0) accepted += outcome.accepted;
    }
    seconds_ += StepSeconds(drafts);
    policy_.AddStep(
        {StepSeconds(drafts), ExpertSeconds(drafts), machine_.told_fresh},
        drafts, accepted);
    tokens_ += sequences_ + accepted;
    drafted_ += drafts;
  }

  const Machine machine_;
  const double acceptance_;
  const int sequences_;
  DraftPolicy policy_;
  uint64_t state_ = 12345;
  double seconds_ = 0;
  int64_t tokens_ = 0;
  int64_t drafted_ = 0;
};

TEST(DraftPolicyTest, NeverCostsMoreThanTwoPercentOverTwoHundredTokens) {
  for (const Machine& machine : {kMemory, kDisk, kDeceptive}) {
    for (const double acceptance : {0.0, 0.1, 0.4, 0.6, 0.9, 1.0}) {
      for (const int sequences : {1, 2, 4}) {
        Simulation simulation(machine, acceptance, sequences);
        simulation.Run(200);
        EXPECT_LE(simulation.ratio(), 1.02)
            << machine.name << " " << acceptance << " " << sequences;
        simulation.Run(2000);
        EXPECT_LE(simulation.ratio(), 1.02)
            << machine.name << " " << acceptance << " " << sequences;
      }
    }
  }
}

TEST(DraftPolicyTest, StaysOffWhereReadingExpertsTakesTheTime) {
  for (const double acceptance : {0.0, 0.4, 0.8}) {
    Simulation simulation(kDisk, acceptance);
    simulation.Run(200);
    // A run of right guesses may tempt it once.
    EXPECT_LE(simulation.drafted(), 2) << acceptance;
    EXPECT_LE(simulation.ratio(), 1.01) << acceptance;
  }
}

// A further row takes 0.22 of a step. With seven drafts of which 0.9 each are
// right, 5.7 tokens come in 2.54 steps' time: at best a ratio of 0.45.
TEST(DraftPolicyTest, GainsWhereDraftsAreRightAndRowsAreCheap) {
  Simulation simulation(kMemory, 0.9);
  simulation.Run(200);
  EXPECT_LT(simulation.ratio(), 0.7);
  simulation.Run(2000);
  EXPECT_LT(simulation.ratio(), 0.65);
}

TEST(DraftPolicyTest, GainsALittleWhereSomeAreRight) {
  Simulation simulation(kMemory, 0.4);
  simulation.Run(1000);
  EXPECT_GT(simulation.drafted(), 100);
  EXPECT_LT(simulation.ratio(), 0.95);
}

TEST(DraftPolicyTest, SendsNothingThatIsNeverRight) {
  Simulation simulation(kMemory, 0);
  simulation.Run(2000);
  EXPECT_LT(simulation.drafted(), 10);
}

TEST(DraftPolicyTest, SendsNothingBeforePlainStepsWereMeasured) {
  DraftPolicy policy;
  policy.BeginStep(1);
  for (int i = 0; i < 100; ++i) policy.AddOutcome({9, 1, 1});
  EXPECT_EQ(policy.Choose(9, 7), 0);
  for (int i = 0; i < 4; ++i) policy.AddStep({1, 0.2, 0.5}, 0, 0);
  EXPECT_EQ(policy.Choose(9, 7), 1);  // one at first
  EXPECT_EQ(policy.Choose(9, 0), 0);
}

TEST(DraftPolicyTest, LengthsOfMatchAreToldApart) {
  DraftPolicy policy;
  for (int i = 0; i < 200; ++i) {
    policy.AddOutcome({2, 1, 0});
    policy.AddOutcome({32, 1, 1});
  }
  EXPECT_LT(policy.Acceptance(3), 0.05);
  EXPECT_GT(policy.Acceptance(8), 0.95);
  EXPECT_FLOAT_EQ(policy.Acceptance(5), 0.3);  // nothing known
}

TEST(DraftPolicyTest, AStepThatHungForOnceDoesNotMakeDraftsLookCheap) {
  DraftPolicy policy;
  policy.BeginStep(1);
  for (int i = 0; i < 300; ++i) policy.AddOutcome({6, 2, 1});
  for (int i = 0; i < 50; ++i) policy.AddStep({1, 0.9, 0.9}, 0, 0);
  policy.AddStep({1000, 0.9, 0.9}, 0, 0);
  EXPECT_EQ(policy.Choose(6, 7), 0);
}

}  // namespace
}  // namespace deltafin
