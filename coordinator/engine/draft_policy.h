// coordinator/engine/draft_policy.h
//
// How many drafts a step should carry: as many as gain time. Compares what a
// step with further rows should take, by what the last steps took and how many
// further experts a row wants, with how often drafts were right. Guesses that
// were not sent are watched all the same, so it costs nothing to learn how good
// they are. Pure: knows time only from what it is told. Thread-compatible.
//
// Nearly lossless in time, too: it may lose less than two steps and one in a
// hundred besides; gains pay back what was lost, not more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace deltafin {

// What one step took, in seconds.
struct StepCost {
  double seconds = 0;
  double waited = 0;  // of them, for routed experts
  // Part of a token's experts that the token before it did not want, 0 to 1.
  double fresh = 1;
};

// What became of one sequence's draft.
struct DraftOutcome {
  int match_length = 0;
  int trials = 0;    // drafts that were compared with what was drawn
  int accepted = 0;  // of them, equal
};

class DraftPolicy {
 public:
  DraftPolicy();

  // A step of so many sequences, one pending token each, is being planned.
  void BeginStep(int num_sequences);
  // Of one sequence in it: how many of `offered` drafts to send.
  int Choose(int match_length, int offered);

  // What the step took that was planned, and what it gave: `drafted` rows
  // beside the pending ones, `accepted` tokens beside the drawn ones.
  void AddStep(const StepCost& cost, int drafted, int accepted);
  void AddOutcome(const DraftOutcome& outcome);

  // Part of the guesses of that match length that were right lately.
  double Acceptance(int match_length) const;

 private:
  static constexpr int kMaxSequences = 16;

  // Of steps without drafts, weighted to the last ones.
  struct PlainSteps {
    int count = 0;
    StepCost cost;
  };
  struct Trials {
    double trials = 4;  // before anything is known: three of ten
    double accepted = 1.2;
  };
  static size_t BucketOf(int match_length);
  PlainSteps& plain() { return plain_[num_sequences_]; }
  // Of one further row, in plain steps.
  double ExtraPerDraft() const;
  bool MayProbe(double extra, double acceptance) const;
  void AddPlain(const StepCost& cost);

  std::array<PlainSteps, kMaxSequences + 1> plain_;
  std::array<Trials, 3> trials_;  // by match length
  int num_sequences_ = 0;
  double planned_ = 0;     // extra rows of the step being planned
  double correction_ = 1;  // measured extra time against predicted
  int num_draft_steps_ = 0;
  int since_plain_ = 0;  // steps with drafts
  double allowance_;     // plain steps that may be lost now
  int64_t num_steps_ = 0;
  int64_t next_probe_ = 0;
  int64_t probe_interval_;
};

}  // namespace deltafin
