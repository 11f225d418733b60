// tests/unit/expert_node/device/card_machine.h
//
// An engine whose experts are generated and whose cards are in the host's
// memory.
#pragma once

#include <memory>
#include <vector>

#include "expert_node/expert_engine.h"
#include "tests/testing/host_card.h"
#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {

// Two full slices and a short one.
inline constexpr ExpertShape kCardShape = {96, 544};
inline constexpr int kCardSlices = 3;

struct CardMachineOptions {
  int num_cards = 1;
  int num_threads = 2;
  int ram_experts = 8;    // that the RAM tier holds
  int card_slots = 1000;  // of each card, if it has the memory; at least a few
  int slots_at_once = 1000;  // of an allocation
  int max_rows = 64;
  int num_stages = 3;
  bool processor_computes = false;  // beside the cards: as fast as it happens
  int pins_refused_from = -1;       // of the RAM tier's memory; -1: no pinner
  CardOpener open;                  // empty: cards in the host's memory
};

class CardMachine {
 public:
  using Orders = testing::HostCardOrders;

  // The cards are opened by OpenCards.
  explicit CardMachine(const CardMachineOptions& options);

  // Before it: what the cards are told.
  Orders& orders(int card) { return *orders_[card]; }
  void OpenCards();

  LayerResult Run(const LayerWork& work) { return RunParts({work})[0]; }
  std::vector<LayerResult> RunParts(const std::vector<LayerWork>& parts);
  LayerResult Run(const LayerWork& work, const std::atomic<bool>& cancelled);

  CardSetStats cards() const { return cards_->stats(); }
  const CardSet& card_set() const { return *cards_; }
  GeneratedStore& store() { return *store_; }
  TieredStore& tiers() { return *tiers_; }
  const testing::PinnedParts& pinned() const { return pinned_; }
  void WaitUntilPinned() { cards_->WaitUntilPinned(); }
  ExpertEngine& engine() { return *engine_; }

  static size_t SlotBytes() {
    return ExpertCache::SlotBytes(kCardShape.slice_offset(1));
  }

 private:
  const CardMachineOptions options_;
  GeneratedStore* store_ = nullptr;
  std::unique_ptr<TieredStore> tiers_;
  testing::PinnedParts pinned_;
  std::vector<std::unique_ptr<Orders>> orders_;
  std::unique_ptr<CardSet> cards_;
  std::unique_ptr<ExpertEngine> engine_;
};

std::vector<int64_t> SumsOf(const LayerResult& result);

}  // namespace deltafin
