#include "expert_node/device/card_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/log.h"
#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

void AddCounts(const CardTierStats& from, CardTierStats& to) {
  to.hits += from.hits;
  to.misses += from.misses;
  to.computed += from.computed;
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

CardSet::CardSet(const CardSetOptions& options, TieredStore& store)
    : shape_(options.limits.shape),
      max_rows_(options.limits.max_rows),
      store_(store),
      pins_(store, ExpertCache::SlotBytes(shape_.slice_offset(1)),
            options.pinner, options.pinned_at_once),
      processor_computes_(options.processor_computes) {
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
  if (work.run.plan().row_tokens.size() > static_cast<size_t>(max_rows_)) {
    return {};
  }
  while (true) {
    std::vector<CardTier*> tiers;
    {
      MutexLock lock(mutex_);
      for (const auto& tier : tiers_) tiers.push_back(tier.get());
    }
    if (tiers.empty()) return {};
    auto layer = std::make_unique<LayerOnCards>(
        tiers, CardNode{store_, pins_, times_, processor_computes_}, work);
    const CardOutcome outcome = layer->Run();
    const int card = layer->failed_card();
    if (card < 0) {
      sums_ = layer->sums();
      return outcome;
    }
    const absl::Status failure = layer->failure();
    layer.reset();  // which needs its cards
    Drop(card, failure);
    work.run.StartOver();
  }
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
  stats.pinned_bytes = pins_.pinned_bytes();
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
