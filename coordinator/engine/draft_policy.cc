#include "coordinator/engine/draft_policy.h"

#include <algorithm>

namespace deltafin {
namespace {

// At most 1.6 + 0.01 x 200 = 3.6 plain steps in any 200, 2.8 in the first; a
// step that takes longer than predicted may lose the rest before the next is
// refused: 2 %.
constexpr double kFirstAllowance = 0.8;
constexpr double kMostAllowance = 1.6;
constexpr double kAllowancePerStep = 0.01;

// Plain steps before drafts are thought of, and how often one is taken anew
// between drafts.
constexpr int kLeastPlainSteps = 4;
constexpr int kDraftStepsPerPlain = 64;
// Steps that carry one draft at most, until their time is known.
constexpr int kCarefulSteps = 4;

// Part of the spine's time that grows with the rows, before it is measured: its
// weights are read once for all of them.
constexpr double kSpineShare = 0.25;

// A gain smaller than this, in plain steps, is not worth the risk.
constexpr double kLeastGain = 0.03;

// A probe sends one draft where a gain is not expected, to measure anew.
constexpr double kProbeAcceptance = 0.5;
constexpr double kMostProbeExtra = 0.5;
constexpr int64_t kFirstProbeInterval = 32;
constexpr int64_t kLastProbeInterval = 1024;

constexpr double kStepWeight = 0.1;
constexpr double kCorrectionWeight = 0.2;
constexpr double kTrialDecay = 0.97;

void MoveTo(double target, double weight, double& value) {
  value += weight * (target - value);
}

}  // namespace

DraftPolicy::DraftPolicy()
    : allowance_(kFirstAllowance), probe_interval_(kFirstProbeInterval) {}

void DraftPolicy::BeginStep(int num_sequences) {
  num_sequences_ = std::min(num_sequences, kMaxSequences);
  planned_ = 0;
}

int DraftPolicy::Choose(int match_length, int offered) {
  if (offered < 1 || plain().count < kLeastPlainSteps ||
      since_plain_ >= kDraftStepsPerPlain) {
    return 0;
  }
  const double extra = ExtraPerDraft();
  const double acceptance = Acceptance(match_length);
  const int most = num_draft_steps_ < kCarefulSteps ? 1 : offered;
  double chance = 1, tokens = 0, best = kLeastGain;
  int chosen = 0;
  for (int count = 1; count <= most; ++count) {
    if (planned_ + extra * count > allowance_) break;
    chance *= acceptance;
    tokens += chance;
    const double gain = tokens / num_sequences_ - extra * count;
    if (gain <= best) continue;
    best = gain;
    chosen = count;
  }
  if (chosen == 0 && MayProbe(extra, acceptance)) chosen = 1;
  planned_ += extra * chosen;
  return chosen;
}

double DraftPolicy::ExtraPerDraft() const {
  const StepCost& cost = plain_[num_sequences_].cost;
  const double spine = std::max(cost.seconds - cost.waited, 0.0);
  const double extra = cost.fresh * cost.waited + kSpineShare * spine;
  return correction_ * extra / (cost.seconds * num_sequences_);
}

bool DraftPolicy::MayProbe(double extra, double acceptance) const {
  return planned_ == 0 && num_steps_ >= next_probe_ &&
         acceptance >= kProbeAcceptance && extra <= kMostProbeExtra &&
         extra <= allowance_;
}

void DraftPolicy::AddStep(const StepCost& cost, int drafted, int accepted) {
  ++num_steps_;
  if (cost.seconds <= 0) return;
  allowance_ += kAllowancePerStep;
  if (drafted == 0) {
    since_plain_ = 0;
    AddPlain(cost);
  } else if (plain().count > 0) {
    ++since_plain_;
    ++num_draft_steps_;
    const double ratio = cost.seconds / plain().cost.seconds;
    const double gain =
        1 + static_cast<double>(accepted) / num_sequences_ - ratio;
    allowance_ += gain;
    const double measured = std::max(ratio - 1, 0.0) / drafted;
    const double wanted = correction_ * measured / ExtraPerDraft();
    MoveTo(std::clamp(wanted, 0.05, 20.0), kCorrectionWeight, correction_);
    if (gain < 0) {
      next_probe_ = num_steps_ + probe_interval_;
      probe_interval_ = std::min(2 * probe_interval_, kLastProbeInterval);
    } else {
      probe_interval_ = kFirstProbeInterval;
    }
  }
  allowance_ = std::min(allowance_, kMostAllowance);
}

void DraftPolicy::AddPlain(const StepCost& cost) {
  PlainSteps& steps = plain();
  if (steps.count++ == 0) {
    steps.cost = cost;
    return;
  }
  // A step that hung for once must not make drafts look cheap.
  const double scale = std::min(1.0, 3 * steps.cost.seconds / cost.seconds);
  MoveTo(scale * cost.seconds, kStepWeight, steps.cost.seconds);
  MoveTo(scale * cost.waited, kStepWeight, steps.cost.waited);
  MoveTo(cost.fresh, kStepWeight, steps.cost.fresh);
}

void DraftPolicy::AddOutcome(const DraftOutcome& outcome) {
  if (outcome.trials == 0) return;
  Trials& known = trials_[BucketOf(outcome.match_length)];
  known.trials = kTrialDecay * known.trials + outcome.trials;
  known.accepted = kTrialDecay * known.accepted + outcome.accepted;
}

double DraftPolicy::Acceptance(int match_length) const {
  const Trials& known = trials_[BucketOf(match_length)];
  return known.accepted / known.trials;
}

size_t DraftPolicy::BucketOf(int match_length) {
  return match_length < 4 ? 0 : match_length < 8 ? 1 : 2;
}

}  // namespace deltafin
