// tests/testing/scripted_spine.h
//
// A FakeSpine whose likeliest next token is what a script says. Engine thread
// only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "tests/testing/fake_spine.h"

namespace deltafin::testing {

class ScriptedSpine final : public FakeSpine {
 public:
  // Asked for the token after these ids of a sequence; negative: none is
  // preferred.
  using Script = std::function<int32_t(std::span<const int32_t> ids)>;

  ScriptedSpine(FakeSpineOptions options, Script script)
      : FakeSpine(std::move(options)), script_(std::move(script)) {}

  absl::Status Embed(std::span<const SequenceSlice> slices) override {
    slices_.assign(slices.begin(), slices.end());
    for (const SequenceSlice& slice : slices) {
      std::vector<int32_t>& ids = ids_[slice.state];
      // An address can come again for another sequence.
      if (slice.state->num_tokens() == 0) ids.clear();
      ids.insert(ids.end(), slice.ids.begin(), slice.ids.end());
    }
    return FakeSpine::Embed(slices);
  }

  absl::Status TakeBack(SequenceState& state, int num_tokens) override {
    RETURN_IF_ERROR(FakeSpine::TakeBack(state, num_tokens));
    std::vector<int32_t>& ids = ids_[&state];
    ids.resize(ids.size() - static_cast<size_t>(num_tokens));
    return absl::OkStatus();
  }

  absl::StatusOr<std::span<const float>> Logits() override {
    const auto rows = FakeSpine::Logits();
    if (!rows.ok()) return rows;
    logits_.assign(rows->begin(), rows->end());
    size_t row = 0;
    for (const SequenceSlice& slice : slices_) {
      const std::vector<int32_t>& ids = ids_[slice.state];
      const size_t num_rows = slice.logits == LogitsRows::kAll
                                  ? slice.ids.size()
                              : slice.logits == LogitsRows::kLast ? 1
                                                                  : 0;
      for (size_t i = 0; i < num_rows; ++i, ++row) {
        Prefer(row,
               script_(std::span(ids).first(ids.size() - num_rows + i + 1)));
      }
    }
    return std::span<const float>(logits_);
  }

 private:
  void Prefer(size_t row, int32_t id) {
    if (id < 0) return;
    const size_t vocab_size = spec().vocab_size;
    const std::span<float> logits =
        std::span(logits_).subspan(row * vocab_size, vocab_size);
    logits[id] = *std::max_element(logits.begin(), logits.end()) + 1;
  }

  const Script script_;
  std::vector<SequenceSlice> slices_;
  std::map<const SequenceState*, std::vector<int32_t>> ids_;
  std::vector<float> logits_;
};

}  // namespace deltafin::testing
