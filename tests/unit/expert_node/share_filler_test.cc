#include "expert_node/share_filler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/expert_node/storage/fake_peers.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Optional;
using State = ShareReport::State;

constexpr ExpertShape kShape = kRaggedShape;
constexpr int kSlices = 3;

v1::CopyOrder OrderOf(ExpertKey key, SliceRun run,
                      const std::vector<std::string>& owners = {"good"}) {
  v1::CopyOrder order;
  order.set_layer(key.layer);
  order.set_expert(key.expert);
  order.set_first_slice(run.first);
  order.set_num_slices(run.count);
  for (const std::string& owner : owners) order.add_owners(owner);
  return order;
}

// A coordinator that wants the node to hold a list of runs.
class ShareFillerTest : public ::testing::Test {
 protected:
  void Open(uint64_t quota = RecordStoreOptions::kNoQuota) {
    ShareStoreOptions options;
    options.folder = folder_.path();
    options.records = SmallReserve();
    options.records.quota_bytes = quota;
    auto share =
        ShareStore::Open(RecordModelOf(kShape), options, peers_, nullptr);
    ASSERT_TRUE(share.ok()) << share.status();
    share_ = *std::move(share);
  }

  void Start() {
    ShareFillerOptions options;
    options.max_orders = 2;
    options.piece_slices = 1;
    options.ask = [this](uint32_t max_orders) { return Answer(max_orders); };
    options.wait_until_idle = [this](absl::Time deadline) {
      MutexLock lock(mutex_);
      waits_.push_back(absl::ToDoubleSeconds(deadline - absl::Now()));
    };
    options.tell_holdings = [this] {
      MutexLock lock(mutex_);
      ++num_told_;
    };
    options.retry = absl::Milliseconds(1);
    options.full_retry = absl::Milliseconds(1);
    filler_ = std::make_unique<ShareFiller>(*share_, std::move(options));
  }

  absl::StatusOr<v1::NextCopiesReply> Answer(uint32_t max_orders) {
    MutexLock lock(mutex_);
    ++num_asked_;
    asked_.NotifyAll();
    if (!failure_.ok()) return failure_;
    v1::NextCopiesReply reply = extra_;
    for (const v1::CopyOrder& order : wanted_) {
      const ExpertKey key = {static_cast<int>(order.layer()),
                             static_cast<int>(order.expert())};
      const SliceRun run = {static_cast<int>(order.first_slice()),
                            static_cast<int>(order.num_slices())};
      if (share_->records().Holds(key, run)) continue;
      reply.set_missing_slices(reply.missing_slices() + run.count);
      if (reply.orders_size() < static_cast<int>(max_orders)) {
        *reply.add_orders() = order;
      }
    }
    return reply;
  }

  void Want(ExpertKey key, SliceRun run,
            const std::vector<std::string>& owners = {"good"}) {
    MutexLock lock(mutex_);
    wanted_.push_back(OrderOf(key, run, owners));
  }
  void WaitFor(State state) {
    while (filler_->report().state != state) WaitForQuestions(1);
  }
  // So many from now.
  void WaitForQuestions(int count) {
    MutexLock lock(mutex_);
    const int end = num_asked_ + count;
    while (num_asked_ < end) asked_.Wait(mutex_);
  }

  const DiskFolder folder_;
  FakePeers peers_{kShape};
  std::unique_ptr<ShareStore> share_;
  Mutex mutex_;
  CondVar asked_;
  int num_asked_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_told_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::CopyOrder> wanted_ ABSL_GUARDED_BY(mutex_);
  v1::NextCopiesReply extra_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> waits_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ShareFiller> filler_;  // last: ends first
};

TEST_F(ShareFillerTest, FillsTheShareAndNothingElse) {
  Open();
  for (int e = 0; e < 5; ++e) Want({1, e}, {e % 2, 2});
  Start();
  WaitFor(State::kComplete);
  const ShareReport report = filler_->report();
  EXPECT_EQ(report.held_slices, 10u);
  EXPECT_EQ(report.copied_slices, 10u);
  EXPECT_EQ(report.missing_slices, 0u);
  EXPECT_EQ(report.failed_copies, 0u);
  EXPECT_EQ(report.copied_bytes, share_->records().stats().held_bytes);
  EXPECT_EQ(report.share_held(), 1);
  for (int e = 0; e < 5; ++e) {
    EXPECT_EQ(share_->HeldMask({1, e}), uint64_t{0b11} << e % 2);
  }
  MutexLock lock(mutex_);
  EXPECT_EQ(waits_.size(), 5u);  // before each copy, bounded
  EXPECT_THAT(waits_, Each(AllOf(Gt(0.0), ::testing::Le(1.0))));
  EXPECT_EQ(num_told_, 3);  // after each answer with copies
}

TEST_F(ShareFillerTest, GoesOnAfterARestartWithWhatIsMissing) {
  Open();
  ASSERT_TRUE(
      share_->Copy({1, 0}, {0, 2}, std::vector<std::string>{"good"}).ok());
  for (int e = 0; e < 3; ++e) Want({1, e}, {0, 2});
  share_.reset();
  Open();
  Start();
  WaitFor(State::kComplete);
  EXPECT_EQ(peers_.reads().size(), 3u);  // one of before
  EXPECT_EQ(filler_->report().copied_slices, 4u);
}

TEST_F(ShareFillerTest, TriesOnWhereAnOwnerOrTheCoordinatorFails) {
  Open();
  peers_.Fail("bad", absl::UnavailableError("gone"));
  Want({1, 0}, {0, 1}, {"bad"});
  Want({1, 1}, {0, 1});
  {
    MutexLock lock(mutex_);
    failure_ = absl::NotFoundError("no member");
  }
  Start();
  WaitForQuestions(3);
  EXPECT_EQ(filler_->report().state, State::kAsking);
  {
    MutexLock lock(mutex_);
    failure_ = absl::OkStatus();
  }
  WaitFor(State::kStuck);
  EXPECT_EQ(share_->HeldMask({1, 1}), 1u);  // the other one came
  EXPECT_GE(filler_->report().failed_copies, 1u);
  peers_.Mend("bad");
  WaitFor(State::kComplete);
  EXPECT_EQ(share_->HeldMask({1, 0}), 1u);
}

TEST_F(ShareFillerTest, WaitsForACoordinatorThatDoesNotKnowYet) {
  Open();
  {
    MutexLock lock(mutex_);
    extra_.set_not_planned(true);
  }
  Start();
  WaitForQuestions(3);
  EXPECT_EQ(filler_->report().state, State::kAsking);
  {
    MutexLock lock(mutex_);
    extra_.set_not_planned(false);
  }
  WaitFor(State::kComplete);
}

TEST_F(ShareFillerTest, WithoutRoomItSaysSoGoesOnAndFillsLater) {
  Open(kShape.slice_offset(1));
  Want({1, 0}, {0, 1});
  Want({1, 1}, {0, 1});
  Start();
  WaitFor(State::kFull);
  EXPECT_EQ(filler_->report().held_slices, 1u);
  EXPECT_EQ(filler_->report().missing_slices, 1u);
  EXPECT_EQ(filler_->report().share_held(), 0.5);
  share_->records().SetQuota(RecordStoreOptions::kNoQuota);
  WaitFor(State::kComplete);
  EXPECT_EQ(filler_->report().held_slices, 2u);
}

TEST_F(ShareFillerTest, RemovesSurplusOnlyWhereItIsShortOfRoom) {
  Open(2 * kShape.slice_offset(1));
  const std::vector<std::string> good = {"good"};
  ASSERT_TRUE(share_->Copy({2, 0}, {0, 1}, good).ok());
  {
    MutexLock lock(mutex_);
    *extra_.add_surplus() = OrderOf({2, 7}, {0, 1});   // not held
    *extra_.add_surplus() = OrderOf({99, 0}, {0, 1});  // not of the model
    *extra_.add_surplus() = OrderOf({2, 0}, {0, 1});
  }
  Want({1, 0}, {0, 1});
  Start();
  WaitFor(State::kComplete);
  EXPECT_EQ(share_->HeldMask({2, 0}), 1u);  // there was room
  EXPECT_EQ(filler_->report().removed_slices, 0u);
  Want({1, 1}, {0, 1});
  while (share_->HeldMask({1, 1}) == 0) WaitForQuestions(1);
  EXPECT_EQ(share_->HeldMask({2, 0}), 0u);
  EXPECT_EQ(share_->HeldMask({1, 0}), 1u);
  EXPECT_EQ(filler_->report().removed_slices, 1u);
}

TEST_F(ShareFillerTest, OrdersOutsideTheModelAreFailuresAndNoMore) {
  Open();
  Want({1, 0}, {0, kSlices});
  {
    MutexLock lock(mutex_);
    *extra_.add_orders() = OrderOf({200, 1}, {0, 1});
    v1::CopyOrder& huge = *extra_.add_orders();
    huge = OrderOf({1, 1}, {0, 1});
    huge.set_first_slice(0xFFFFFFFF);
    huge.set_num_slices(0xFFFFFFFF);
  }
  Start();
  WaitFor(State::kStuck);
  EXPECT_GE(filler_->report().failed_copies, 2u);
  EXPECT_EQ(filler_->report().held_slices, 0u);  // no room in the answer
}

TEST_F(ShareFillerTest, KeepsWithinTheBudget) {
  Open();
  {
    MutexLock lock(mutex_);
    extra_.set_bytes_per_second(1);  // the first copy takes hours of it
  }
  Want({1, 0}, {0, 1});
  Want({1, 1}, {0, 1});
  Start();
  while (share_->HeldMask({1, 0}) == 0) {
    MutexLock lock(mutex_);
    asked_.WaitUntil(mutex_, absl::Now() + absl::Milliseconds(1));
  }
  EXPECT_EQ(share_->HeldMask({1, 1}), 0u);
  filler_.reset();  // ends at once all the same
  EXPECT_EQ(peers_.reads().size(), 1u);
}

TEST_F(ShareFillerTest, WithinABudgetRunsAreCopiedInPieces) {
  Open();
  constexpr uint64_t kBudget = uint64_t{1} << 40;
  {
    MutexLock lock(mutex_);
    extra_.set_bytes_per_second(kBudget);
  }
  Want({1, 0}, {0, 3});
  Want({1, 1}, {1, 2});
  Start();
  WaitFor(State::kComplete);
  EXPECT_THAT(peers_.reads(), ElementsAre("good 0+1", "good 1+1", "good 2+1",
                                          "good 1+1", "good 2+1"));
  EXPECT_THAT(peers_.budgets(), Each(Optional(kBudget)));
  EXPECT_EQ(filler_->report().copied_slices, 5u);
  MutexLock lock(mutex_);
  EXPECT_EQ(waits_.size(), 5u);  // before each of them
}

TEST_F(ShareFillerTest, WithoutABudgetRunsAreCopiedWhole) {
  Open();
  Want({1, 0}, {0, 3});
  Start();
  WaitFor(State::kComplete);
  EXPECT_THAT(peers_.reads(), ElementsAre("good 0+3"));
  EXPECT_THAT(peers_.budgets(), ElementsAre(Optional(uint64_t{0})));
}

TEST_F(ShareFillerTest, WhatFailsUsesUpTheBudgetAsWell) {
  Open();
  {
    MutexLock lock(mutex_);
    extra_.set_bytes_per_second(1);
  }
  peers_.Fail("good", absl::UnavailableError("gone"), /*after=*/0);
  Want({1, 0}, {0, 3});
  Want({1, 1}, {0, 1});
  Start();
  while (filler_->report().failed_copies == 0) {
    MutexLock lock(mutex_);
    asked_.WaitUntil(mutex_, absl::Now() + absl::Milliseconds(1));
  }
  filler_.reset();
  EXPECT_THAT(peers_.reads(), ElementsAre("good 0+1"));
}

}  // namespace
}  // namespace deltafin
