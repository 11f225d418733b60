#include "coordinator/engine/step_batch.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernels/kernel_registry.h"
#include "tests/unit/coordinator/engine/engine_fixture.h"

namespace deltafin {
namespace {

using testing::FakeSpine;
using testing::MakeRequest;
using testing::TokenRecorder;

class StepBatchTest : public ::testing::Test {
 protected:
  LiveRequest* Add(GenerationRequest request) {
    requests_.push_back(std::make_unique<LiveRequest>(
        std::move(request), &recorder_, SequenceLimits{100, 60},
        BestKernel().elementwise));
    LiveRequest* added = requests_.back().get();
    added->SetState(spine_.NewSequence(100).value());
    live_.push_back(added);
    return added;
  }

  std::vector<size_t> Sizes(const StepBatch& batch) {
    std::vector<size_t> sizes;
    for (const SequenceSlice& slice : batch.slices) {
      sizes.push_back(slice.ids.size());
    }
    return sizes;
  }

  // Takes made-up rows for every slice, as a step does.
  void Take(const StepBatch& batch) {
    const std::vector<float> row(61, 0.0f);
    for (size_t i = 0; i < batch.requests.size(); ++i) {
      const bool last = batch.slices[i].logits == LogitsRows::kLast;
      ASSERT_TRUE(batch.requests[i]
                      ->Take(batch.slices[i],
                             last ? std::span(row) : std::span(row).first(0))
                      .ok());
    }
  }

  FakeSpine spine_;
  TokenRecorder recorder_;
  std::vector<std::unique_ptr<LiveRequest>> requests_;
  std::vector<LiveRequest*> live_;
};

TEST_F(StepBatchTest, DecodeRowsComeBesideTheWholePrefillChunk) {
  Add(MakeRequest({1, 2}, 9));
  StepBatch batch = FormStepBatch(live_, {4, 100});
  EXPECT_EQ(Sizes(batch), (std::vector<size_t>{2}));
  EXPECT_EQ(batch.slices[0].logits, LogitsRows::kLast);
  Take(batch);
  Add(MakeRequest({3, 4, 5, 6, 7, 8}, 9));
  batch = FormStepBatch(live_, {4, 100});
  EXPECT_EQ(Sizes(batch), (std::vector<size_t>{1, 4}));
  EXPECT_EQ(batch.decode_tokens, 1);
  EXPECT_EQ(batch.prefill_tokens, 4);
  EXPECT_EQ(batch.slices[1].logits, LogitsRows::kNone);
  Take(batch);
  batch = FormStepBatch(live_, {4, 100});
  EXPECT_EQ(Sizes(batch), (std::vector<size_t>{1, 2}));
  EXPECT_EQ(batch.slices[1].logits, LogitsRows::kLast);
}

TEST_F(StepBatchTest, AllLogitsBoundTheChunkOfTheirRequestAlone) {
  GenerationRequest all = MakeRequest({1, 2, 3, 4, 5}, 1);
  all.want_all_logits = true;
  Add(all);
  Add(MakeRequest({1, 2, 3, 4, 5}, 1));
  const StepBatch batch = FormStepBatch(live_, {100, 2});
  EXPECT_EQ(Sizes(batch), (std::vector<size_t>{2, 5}));
  EXPECT_EQ(batch.slices[0].logits, LogitsRows::kAll);
}

TEST_F(StepBatchTest, RewoundRequestRunsAloneUpToThePointOfFailure) {
  Add(MakeRequest({1, 2}, 9));
  LiveRequest* rewound = Add(MakeRequest({3, 4, 5}, 9));
  FormStepBatch(live_, {100, 100});
  ASSERT_TRUE(rewound->Rewind(spine_).ok());
  StepBatch batch = FormStepBatch(live_, {2, 100});
  EXPECT_EQ(batch.requests, (std::vector<LiveRequest*>{rewound}));
  EXPECT_EQ(Sizes(batch), (std::vector<size_t>{2}));
  Take(batch);
  batch = FormStepBatch(live_, {2, 100});
  EXPECT_EQ(batch.requests, (std::vector<LiveRequest*>{rewound}));
  Take(batch);
  batch = FormStepBatch(live_, {4, 100});
  EXPECT_EQ(batch.requests, live_);
}

}  // namespace
}  // namespace deltafin
