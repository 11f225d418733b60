// expert_node/device/expert_card.h
//
// A card that computes routed experts from memory of its own: the seam between
// the tier of a node (card_tier.h) and a maker's kernels. Copies of experts and
// runs over them go on side by side while the caller does other things.
// Thread-compatible.
//
// Errors name the card and what failed; after any but RESOURCE_EXHAUSTED of
// Allocate the card is used no more. Its memory goes with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/expert_weights.h"
#include "kernels/kernel_status.h"

namespace deltafin {

// What a card is opened for; it takes memory for it at once.
struct CardLimits {
  ExpertShape shape;
  SituParams situ;
  int max_rows = 0;          // tokens of a request
  int max_routes = 0;        // slices that a token may want of a layer
  int num_layer_slices = 0;  // of a layer, all experts
  int num_stages = 0;        // slices on their way to the card at once
};

// A slice in the card's memory.
struct CardSlice {
  const uint8_t* bytes = nullptr;  // the card's address, from Allocate
  int slice = 0;                   // of its expert
};

// What a token wants of a run.
struct CardRoute {
  int32_t slice = -1;  // index into CardRun::slices; -1: nothing
  float weight = 0;    // router weight of its expert
};

// Slices for tokens of a request that lie together.
struct CardRun {
  std::span<const CardSlice> slices;  // at most max_slices()
  int first_row = 0;
  int num_rows = 0;                   // at most max_run_rows()
  int routes_of_row = 0;              // at most CardLimits::max_routes
  std::span<const CardRoute> routes;  // [num_rows, routes_of_row]
};

class ExpertCard {
 public:
  virtual ~ExpertCard() = default;

  // "CUDA card 0 (NVIDIA H200)", for messages.
  virtual const std::string& name() const = 0;
  virtual int max_slices() const = 0;
  virtual int max_run_rows() const = 0;

  // Bytes of its memory that nobody has now. Thread-safe.
  virtual absl::StatusOr<uint64_t> FreeBytes() const = 0;

  // Memory for slices, the card's own address on 256 bytes, never read by the
  // host; lives as long as the card. RESOURCE_EXHAUSTED: it has no more, and
  // goes on as before.
  virtual absl::StatusOr<uint8_t*> Allocate(size_t bytes) = 0;

  // Memory of the host that the card reads by itself: one slice each.
  virtual uint8_t* stage(int index) = 0;
  // Starts to copy to the card's memory, from a stage or from other memory that
  // is pinned (HostPinner). `from` is left alone until WaitForStage.
  virtual absl::Status CopyIn(int stage, const uint8_t* from, uint8_t* to,
                              size_t bytes) = 0;
  // Blocks until a stage's last copy is done.
  virtual absl::Status WaitForStage(int stage) = 0;

  // Begins a request: its tokens, each [L] f32, at most max_rows; its sums are
  // zero. REQUIRES: Finish has ended the one before.
  virtual absl::Status Begin(std::span<const float* const> rows) = 0;
  // Starts a run: adds to the sums of its rows, after all copies that were
  // started. Its slices stay until Wait or Finish; the rest is copied.
  virtual absl::Status Run(const CardRun& run) = 0;
  // Blocks until all that was started is done.
  virtual absl::Status Wait() = 0;
  // The same, and ends the request. An error of the computation (some
  // activation not finite, an output too large) is no error of the card: then
  // the sums mean nothing.
  virtual absl::StatusOr<KernelStatus> Finish() = 0;
  // Of the request that was finished last, [rows, L] fixed point (scale 2^40);
  // valid until the next Begin.
  virtual const int64_t* sums() const = 0;
};

// Opens a card by its number. Errors: UNAVAILABLE, in one sentence.
using CardOpener = std::function<absl::StatusOr<std::unique_ptr<ExpertCard>>(
    int card, const CardLimits& limits)>;

}  // namespace deltafin
