#include "expert_node/device/layer_on_cards.h"

#include <algorithm>
#include <optional>

#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// Of a feeder. To start a copy takes a few microseconds, to wake a thread tens
// of them.
constexpr int kCardsOfFeeder = 4;
// Slices for each card that a feeder brings before the links decide how long
// the next takes: more than cards have stages.
constexpr int kSteadyFrom = 4;

}  // namespace

LayerOnCards::LayerOnCards(std::span<CardTier* const> tiers,
                           const CardNode& node, const CardWork& work)
    : node_(node),
      work_(work),
      plan_(work.run.plan()),
      num_feeders_(
          std::min({(static_cast<int>(tiers.size()) - 1) / kCardsOfFeeder + 1,
                    work.threads.num_threads(), SliceTimes::kMostFeeders})),
      missing_(num_feeders_, node.times, SystemClock()) {
  for (CardTier* tier : tiers) {
    layers_.push_back(std::make_unique<LayerOnCard>(*tier, plan_));
  }
}

LayerOnCards::~LayerOnCards() = default;

CardOutcome LayerOnCards::Run() {
  Plan();
  Begin();
  if (!missing_units_.empty()) TakeMissing();
  const KernelStatus computed = Finish();
  CardOutcome outcome;
  outcome.hits = static_cast<int>(plan_.units.size()) - lease_->misses();
  outcome.misses = lease_->misses();
  outcome.bytes_read = lease_->bytes_read();
  outcome.waited = absl::Nanoseconds(waited_ns_.load());
  MutexLock lock(mutex_);
  outcome.status = status_;
  outcome.done = failed_card_ < 0 && computed == KernelStatus::kOk &&
                 !work_.run.error().any();
  return outcome;
}

void LayerOnCards::Plan() {
  std::vector<SliceKey> wanted;
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    const int unit = static_cast<int>(u);
    const SliceKey& key = plan_.slices[u];
    // Slices of an expert go round, so that each card has as much to do.
    const int card = (key.expert.expert + key.slice) % num_cards();
    card_of_.push_back(card);
    if (layers_[card]->Take(unit)) continue;
    missing_units_.push_back(unit);
    wanted.push_back(key);
  }
  lease_ = node_.store.Acquire(wanted, plan_.slices);
  for (const int index : lease_->order()) {
    const int unit = missing_units_[index];
    const int group = plan_.units[unit].group;
    missing_.Add(FeederOf(card_of_[unit]),
                 {index, unit, plan_.groups[group].weights.size()});
  }
}

void LayerOnCards::Begin() {
  std::vector<const float*> rows;
  for (const int token : plan_.row_tokens) {
    rows.push_back(work_.work.latent_row(token));
  }
  for (int card = 0; card < num_cards() && !stop_; ++card) {
    if (!layers_[card]->has_units()) continue;
    const absl::Status status = layers_[card]->Begin(rows, *lease_);
    if (!status.ok()) Fail(card, status);
  }
}

void LayerOnCards::TakeMissing() {
  int num_tasks = num_feeders_;
  if (node_.processor_computes && missing_.HasForProcessor()) {
    const absl::Status status = work_.run.Allocate();
    if (!status.ok()) return Stop(status);
    num_tasks = std::max(num_tasks, work_.threads.num_threads());
  }
  if (num_tasks == 1) return Feed(0);
  // No feeder's thread takes another task before all of its own are done, and
  // there are as many threads: all feeders are at work together.
  work_.threads.ParallelFor(num_tasks, [&](int64_t task, int worker) {
    task < num_feeders_ ? Feed(static_cast<int>(task)) : Compute(worker);
  });
}

void LayerOnCards::Feed(int feeder) {
  const int num_mine = (num_cards() - feeder - 1) / num_feeders_ + 1;
  const int steady_from = kSteadyFrom * num_mine;
  int num_brought = 0;  // one after the other
  bool is_steady = false;
  absl::Duration first, last;
  while (!HasStopped()) {
    const std::optional<MissingSlice> next = missing_.TakeForFeeder(feeder);
    if (!next) break;
    if (!lease_->IsReady(next->index)) {
      // What waits for room may wait for what the cards still read.
      if (!ForCardsOf(feeder, &LayerOnCard::FinishCopies)) return;
      num_brought = 0;
    }
    const uint8_t* const bytes = WaitFor(*next);
    if (bytes == nullptr) return;
    if (num_brought == 0) first = SystemClock().Elapsed();
    const int card = card_of_[next->unit];
    const bool is_pinned = node_.pins.Covers(bytes, SizeOf(next->unit));
    const absl::Status status =
        layers_[card]->Bring({next->unit, next->index, bytes, is_pinned});
    if (!status.ok()) return Fail(card, status);
    const absl::Duration now = SystemClock().Elapsed();
    // From then on each waits until an earlier one is there.
    if (++num_brought > steady_from) {
      node_.times.AddBrought(feeder, now - last);
      is_steady = true;
    }
    last = now;
  }
  if (!ForCardsOf(feeder, &LayerOnCard::Flush)) return;
  // The processor's threads may wait for the room of what was brought last.
  if (!ForCardsOf(feeder, &LayerOnCard::FinishCopies)) return;
  // With few slices this is a little too long, but better than what was true
  // long ago.
  if (num_brought > 0 && !is_steady) {
    node_.times.AddBrought(feeder,
                           (SystemClock().Elapsed() - first) / num_brought);
  }
}

bool LayerOnCards::ForCardsOf(int feeder, absl::Status (LayerOnCard::*call)()) {
  for (int card = feeder; card < num_cards(); card += num_feeders_) {
    const absl::Status status = (layers_[card].get()->*call)();
    if (status.ok()) continue;
    Fail(card, status);
    return false;
  }
  return true;
}

void LayerOnCards::Compute(int worker) {
  while (!HasStopped()) {
    const std::optional<MissingSlice> next = missing_.TakeForProcessor();
    if (!next) return;
    const uint8_t* const bytes = WaitFor(*next);
    if (bytes == nullptr) return;
    const absl::Duration begin = SystemClock().Elapsed();
    work_.run.RunSlice(next->unit, bytes, worker);
    node_.times.AddComputed(next->num_tokens, SystemClock().Elapsed() - begin);
    lease_->Release(next->index);
    layers_[card_of_[next->unit]]->CountComputed();
    if (work_.run.error().any()) End();
  }
}

const uint8_t* LayerOnCards::WaitFor(const MissingSlice& missing) {
  const absl::Duration begin = SystemClock().Elapsed();
  const absl::StatusOr<const uint8_t*> bytes = lease_->Wait(missing.index);
  waited_ns_ += absl::ToInt64Nanoseconds(SystemClock().Elapsed() - begin);
  if (bytes.ok()) return *bytes;
  Stop(bytes.status());
  return nullptr;
}

size_t LayerOnCards::SizeOf(int unit) const {
  const ExpertShape& shape = node_.store.shape();
  const int slice = plan_.slices[unit].slice;
  return shape.slice_offset(slice + 1) - shape.slice_offset(slice);
}

bool LayerOnCards::HasStopped() {
  if (stop_.load(std::memory_order_relaxed)) return true;
  if (!work_.run.cancelled().load(std::memory_order_relaxed)) return false;
  Stop(absl::CancelledError("cancelled by the coordinator"));
  return true;
}

KernelStatus LayerOnCards::Finish() {
  KernelStatus computed = KernelStatus::kOk;
  for (int card = 0; card < num_cards() && !stop_; ++card) {
    LayerOnCard& layer = *layers_[card];
    if (!layer.has_units()) continue;
    const absl::StatusOr<KernelStatus> finished = layer.Finish();
    if (finished.ok()) {
      computed = Worse(computed, *finished);
      sums_.push_back(layer.sums());
    } else {
      Fail(card, finished.status());
    }
  }
  return computed;
}

void LayerOnCards::Fail(int card, const absl::Status& why) {
  {
    MutexLock lock(mutex_);
    if (failed_card_ < 0) {
      failed_card_ = card;
      failure_ = why;
    }
  }
  End();
}

void LayerOnCards::Stop(const absl::Status& why) {
  {
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = why;
  }
  End();
}

// Threads may wait for room that nobody is going to make now.
void LayerOnCards::End() {
  stop_ = true;
  lease_->Abandon();
}

}  // namespace deltafin
