#include "tests/unit/expert_node/device/card_machine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "expert_node/device/cuda_expert_card.h"

namespace deltafin {

CardMachine::CardMachine(const CardMachineOptions& options)
    : options_(options) {
  auto lower = std::make_unique<GeneratedStore>(kCardShape);
  store_ = lower.get();
  const size_t ram = SlotBytes() * kCardSlices * options.ram_experts;
  auto tiers = TieredStore::Create(std::move(lower), {ram, 2});
  EXPECT_TRUE(tiers.ok()) << tiers.status();
  tiers_ = *std::move(tiers);
  for (int i = 0; i < options.num_cards; ++i) {
    orders_.push_back(std::make_unique<Orders>());
    orders_.back()->pinned = &pinned_;
  }
}

void CardMachine::OpenCards() {
  const ModelSpec spec = SmallSpec(kCardShape);
  CardSetOptions cards;
  for (int i = 0; i < options_.num_cards; ++i) cards.cards.push_back(i);
  cards.open = [this](int index, const CardLimits& limits)
      -> absl::StatusOr<std::unique_ptr<ExpertCard>> {
    const std::string name = "host card " + std::to_string(index);
    if (orders_[index]->memory_bytes == 0) {
      return absl::UnavailableError(name + ": there is none");
    }
    return testing::MakeHostCard(name, limits, *orders_[index]);
  };
  if (options_.open) cards.open = options_.open;
  cards.limits.shape = kCardShape;
  cards.limits.max_rows = options_.max_rows;
  cards.limits.max_routes = spec.num_experts_per_token * kCardSlices;
  cards.limits.num_layer_slices = spec.num_experts * kCardSlices;
  cards.limits.num_stages = options_.num_stages;
  cards.tier.memory.headroom_bytes = SlotBytes();
  cards.tier.memory.bytes_at_once = options_.slots_at_once * SlotBytes();
  cards.tier.memory.most_bytes = options_.card_slots * SlotBytes();
  cards.tier.most_slots =
      size_t(cards.limits.num_layer_slices) * spec.num_moe_layers();
  cards.pinned_at_once = size_t{128} << 10;
  cards.processor_computes = options_.processor_computes;
  if (options_.open) {
    cards.pinner = CudaHostPinner(0);
  } else if (options_.pins_refused_from >= 0) {
    cards.pinner = pinned_.pinner(options_.pins_refused_from);
  }
  cards_ = std::make_unique<CardSet>(cards, *tiers_);
  engine_ = std::make_unique<ExpertEngine>(BestKernel(), SituParams(), *tiers_,
                                           options_.num_threads, cards_.get());
}

std::vector<LayerResult> CardMachine::RunParts(
    const std::vector<LayerWork>& parts) {
  std::vector<const LayerWork*> pointers;
  for (const LayerWork& part : parts) pointers.push_back(&part);
  return engine_->Run(pointers, std::atomic<bool>(false));
}

LayerResult CardMachine::Run(const LayerWork& work,
                             const std::atomic<bool>& cancelled) {
  const LayerWork* const parts[] = {&work};
  return engine_->Run(parts, cancelled)[0];
}

std::vector<int64_t> SumsOf(const LayerResult& result) {
  std::vector<int64_t> sums(result.sums.size() / sizeof(int64_t));
  std::memcpy(sums.data(), result.sums.data(), result.sums.size());
  return sums;
}

}  // namespace deltafin
