#include "expert_node/device/card_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

void AddCounts(const CardTierStats& from, CardTierStats& to) {
  to.hits += from.hits;
  to.misses += from.misses;
  to.copied_bytes += from.copied_bytes;
  to.evictions += from.evictions;
}

absl::StatusOr<std::unique_ptr<CardTier>> OpenTier(
    int index, const CardSetOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<ExpertCard> card,
                   options.open(index, options.limits));
  CardTierOptions tier = options.tier;
  const size_t num_cards = options.cards.size();
  tier.most_slots = (tier.most_slots + num_cards - 1) / num_cards;
  return CardTier::Create(std::move(card), options.limits, tier);
}

}  // namespace

// One try of a request: with the cards that worked when it began.
struct CardSet::Attempt {
  // The first card to fail, and anything else that stops the request.
  void Fail(int card, const absl::Status& why) {
    MutexLock lock(mutex);
    if (failed_card < 0) {
      failed_card = card;
      failure = why;
    }
    stop = true;
  }
  void Stop(const absl::Status& why) {
    MutexLock lock(mutex);
    if (status.ok()) status = why;
    stop = true;
  }

  std::vector<CardTier*> tiers;
  std::vector<std::unique_ptr<LayerOnCard>> layers;  // [tiers]
  std::vector<int> card_of;                          // [units]
  std::vector<int> missing;                          // units on no card
  std::atomic<bool> stop{false};
  std::atomic<int64_t> waited_ns{0};
  Mutex mutex;
  int failed_card ABSL_GUARDED_BY(mutex) = -1;
  absl::Status failure ABSL_GUARDED_BY(mutex);
  absl::Status status ABSL_GUARDED_BY(mutex);
};

CardSet::CardSet(const CardSetOptions& options)
    : shape_(options.limits.shape), max_rows_(options.limits.max_rows) {
  for (const int index : options.cards) {
    absl::StatusOr<std::unique_ptr<CardTier>> tier = OpenTier(index, options);
    if (!tier.ok()) {
      ++num_failed_;
      spdlog::warn("{}; the node goes on without this card",
                   std::string(tier.status().message()));
      continue;
    }
    const std::string& shortfall = (*tier)->shortfall();
    spdlog::info("{}: {} for experts{}{}", (*tier)->name(),
                 FormatByteSize((*tier)->stats().capacity_bytes),
                 shortfall.empty() ? "" : "; ", shortfall);
    tiers_.push_back(*std::move(tier));
  }
  if (tiers_.empty()) spdlog::warn("experts are computed by the processor");
}

CardSet::~CardSet() = default;

bool CardSet::any() const {
  MutexLock lock(mutex_);
  return !tiers_.empty();
}

CardOutcome CardSet::Run(const CardWork& work) {
  if (work.plan.row_tokens.size() > static_cast<size_t>(max_rows_)) return {};
  while (true) {
    Attempt attempt;
    {
      MutexLock lock(mutex_);
      for (const auto& tier : tiers_) attempt.tiers.push_back(tier.get());
    }
    if (attempt.tiers.empty()) return {};
    const CardOutcome outcome = Try(work, attempt);
    MutexLock lock(attempt.mutex);
    if (attempt.failed_card < 0) return outcome;
    attempt.layers.clear();  // which need their cards
    Drop(attempt.failed_card, attempt.failure);
  }
}

CardOutcome CardSet::Try(const CardWork& work, Attempt& attempt) {
  const WorkPlan& plan = work.plan;
  const int num_cards = static_cast<int>(attempt.tiers.size());
  for (CardTier* tier : attempt.tiers) {
    attempt.layers.push_back(std::make_unique<LayerOnCard>(*tier, plan));
  }
  std::vector<SliceKey> wanted;
  for (size_t unit = 0; unit < plan.units.size(); ++unit) {
    const SliceKey& key = plan.slices[unit];
    // Slices of an expert go round, so that each card has as much to do.
    const int card = (key.expert.expert + key.slice) % num_cards;
    attempt.card_of.push_back(card);
    if (attempt.layers[card]->Take(static_cast<int>(unit))) continue;
    attempt.missing.push_back(static_cast<int>(unit));
    wanted.push_back(key);
  }
  const std::unique_ptr<SliceLease> lease =
      work.store.Acquire(wanted, plan.slices);
  std::vector<const float*> rows;
  for (const int token : plan.row_tokens) {
    rows.push_back(work.work.latent_row(token));
  }
  for (int card = 0; card < num_cards && !attempt.stop; ++card) {
    if (!attempt.layers[card]->has_units()) continue;
    const absl::Status status = attempt.layers[card]->Begin(rows);
    if (!status.ok()) attempt.Fail(card, status);
  }
  AddMisses(work, *lease, attempt);
  CardOutcome outcome = FinishAll(attempt);
  outcome.hits = static_cast<int>(plan.units.size()) - lease->misses();
  outcome.misses = lease->misses();
  outcome.bytes_read = lease->bytes_read();
  outcome.waited = absl::Nanoseconds(attempt.waited_ns.load());
  return outcome;
}

void CardSet::AddMisses(const CardWork& work, SliceLease& lease,
                        Attempt& attempt) {
  const auto add = [&](int64_t task, int /*worker*/) {
    if (attempt.stop.load(std::memory_order_relaxed)) return;
    if (work.cancelled.load(std::memory_order_relaxed)) {
      return attempt.Stop(absl::CancelledError("cancelled by the coordinator"));
    }
    const int index = lease.order()[task];
    const absl::Duration begin = SystemClock().Elapsed();
    const absl::StatusOr<const uint8_t*> slice = lease.Wait(index);
    attempt.waited_ns +=
        absl::ToInt64Nanoseconds(SystemClock().Elapsed() - begin);
    if (!slice.ok()) return attempt.Stop(slice.status());
    const int unit = attempt.missing[index];
    const int card = attempt.card_of[unit];
    const absl::Status status =
        attempt.layers[card]->Add(unit, *slice, [&] { lease.Release(index); });
    if (!status.ok()) attempt.Fail(card, status);
  };
  if (!lease.order().empty()) {
    work.threads.ParallelFor(static_cast<int64_t>(lease.order().size()), add);
  }
}

CardOutcome CardSet::FinishAll(Attempt& attempt) {
  CardOutcome outcome;
  sums_.clear();
  KernelStatus computed = KernelStatus::kOk;
  for (size_t card = 0; card < attempt.layers.size() && !attempt.stop; ++card) {
    LayerOnCard& layer = *attempt.layers[card];
    if (!layer.has_units()) continue;
    const absl::StatusOr<KernelStatus> finished = layer.Finish();
    if (finished.ok()) {
      computed = Worse(computed, *finished);
      sums_.push_back(layer.sums());
    } else {
      attempt.Fail(static_cast<int>(card), finished.status());
    }
  }
  MutexLock lock(attempt.mutex);
  outcome.status = attempt.status;
  outcome.done = attempt.failed_card < 0 && computed == KernelStatus::kOk;
  return outcome;
}

void CardSet::Drop(size_t card, const absl::Status& why) {
  MutexLock lock(mutex_);
  AddCounts(tiers_[card]->stats(), dropped_);
  tiers_.erase(tiers_.begin() + static_cast<ptrdiff_t>(card));
  ++num_failed_;
  spdlog::error("{}; experts are computed by {} from now on",
                std::string(why.message()),
                tiers_.empty() ? "the processor" : "the other cards");
}

void CardSet::MergeRow(int row, char* out) const {
  const size_t width = shape_.latent_size;
  std::vector<int64_t> total(width, 0);
  for (const int64_t* sums : sums_) {
    const int64_t* const mine = sums + row * width;
    for (size_t i = 0; i < width; ++i) total[i] += mine[i];
  }
  std::memcpy(out, total.data(), width * sizeof(int64_t));
}

std::vector<ExpectedRun> CardSet::Lacking(
    std::span<const ExpectedRun> runs) const {
  std::vector<ExpectedRun> lacking;
  MutexLock lock(mutex_);
  for (const ExpectedRun& run : runs) {
    for (int s = run.run.first; s < run.run.first + run.run.count; ++s) {
      const SliceKey key = {run.expert, s};
      if (std::any_of(tiers_.begin(), tiers_.end(),
                      [&](const auto& tier) { return tier->Contains(key); })) {
        continue;
      }
      const bool continues =
          !lacking.empty() && lacking.back().expert == run.expert &&
          lacking.back().run.first + lacking.back().run.count == s;
      if (continues) {
        ++lacking.back().run.count;
      } else {
        lacking.push_back({run.expert, {s, 1}});
      }
    }
  }
  return lacking;
}

CardSetStats CardSet::stats() const {
  CardSetStats stats;
  MutexLock lock(mutex_);
  stats.tiers = dropped_;
  stats.num_cards = static_cast<int>(tiers_.size());
  stats.num_failed = num_failed_;
  for (const auto& tier : tiers_) {
    const CardTierStats of_tier = tier->stats();
    AddCounts(of_tier, stats.tiers);
    stats.tiers.resident_bytes += of_tier.resident_bytes;
    stats.tiers.capacity_bytes += of_tier.capacity_bytes;
    stats.free_bytes += tier->FreeBytes().value_or(0);
  }
  return stats;
}

}  // namespace deltafin
