#include "expert_node/slice_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/digest.h"
#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

constexpr ExpertShape kShape = {96, 544};

class SliceSenderTest : public ::testing::Test {
 protected:
  static v1::ReadSlicesRequest RequestOf(int layer, int expert, int first,
                                         int count) {
    v1::ReadSlicesRequest request;
    request.set_manifest_digest("aa11");
    request.set_layer(layer);
    request.set_expert(expert);
    request.set_first_slice(first);
    request.set_num_slices(count);
    return request;
  }
  absl::Status Send(const v1::ReadSlicesRequest& request) {
    return sender_.Send(
        request, [] { return false; },
        [this](const v1::SliceBytes& slice) {
          sent_.push_back(slice);
          return true;
        });
  }

  GeneratedStore store_{kShape};
  SliceSender sender_{SmallSpec(kShape), "aa11", store_};
  std::vector<v1::SliceBytes> sent_;
};

TEST_F(SliceSenderTest, SendsTheSlicesOfARunWithTheirDigests) {
  const absl::Status status = Send(RequestOf(2, 3, 1, 2));
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(sent_.size(), 2u);
  const GeneratedExpert expert(kShape, {2, 3});
  uint64_t bytes = 0;
  for (int i = 0; i < 2; ++i) {
    const std::vector<uint8_t> want = expert.Packed(1 + i);
    EXPECT_EQ(sent_[i].slice(), 1u + i);
    EXPECT_EQ(sent_[i].data(), std::string(want.begin(), want.end()));
    const Xxh128 digest = Xxh3Digest(want);
    EXPECT_EQ(sent_[i].xxh3_low(), digest.low);
    EXPECT_EQ(sent_[i].xxh3_high(), digest.high);
    bytes += want.size();
  }
  EXPECT_EQ(sender_.bytes_sent(), bytes);
}

TEST_F(SliceSenderTest, RefusesWhatIsNotOfTheModel) {
  for (const v1::ReadSlicesRequest& bad :
       {RequestOf(0, 3, 0, 1), RequestOf(5, 3, 0, 1), RequestOf(-1, 3, 0, 1),
        RequestOf(2, 8, 0, 1), RequestOf(2, 3, 0, 0), RequestOf(2, 3, 0, 4),
        RequestOf(2, 3, 2, 2), RequestOf(2, 3, -1, 2),
        RequestOf(2, 3, 1, -1)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Send(bad))) << bad.ShortDebugString();
  }
  v1::ReadSlicesRequest other = RequestOf(2, 3, 0, 1);
  other.set_manifest_digest("bb22");
  const absl::Status status = Send(other);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("has bb22"));
  EXPECT_EQ(store_.num_reads(), 0);
}

TEST_F(SliceSenderTest, AnErrorOfTheStoreComesBeforeAnySlice) {
  store_.set_failure([](ExpertKey) { return absl::NotFoundError("gone"); });
  EXPECT_TRUE(absl::IsNotFound(Send(RequestOf(2, 3, 0, 3))));
  EXPECT_TRUE(sent_.empty());
}

TEST_F(SliceSenderTest, ACallerThatIsGoneEndsIt) {
  int written = 0;
  const absl::Status status = sender_.Send(
      RequestOf(2, 3, 0, 3), [] { return false; },
      [&written](const v1::SliceBytes&) { return ++written < 2; });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(written, 2);
}

TEST_F(SliceSenderTest, CallersWaitForTheirTurnAndTooManyAreRefused) {
  constexpr int kAll = SliceSender::kMaxReading + SliceSender::kMaxWaiting;
  store_.Hold();
  std::atomic<bool> cancelled{false};
  std::atomic<int> num_asking{0};
  std::atomic<int> num_good{0};
  std::atomic<int> num_cancelled{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < kAll; ++i) {
    callers.emplace_back([&] {
      ++num_asking;
      const absl::Status status = sender_.Send(
          RequestOf(2, 3, 0, 1), [&cancelled] { return cancelled.load(); },
          [](const v1::SliceBytes&) { return true; });
      num_good += status.ok();
      num_cancelled += absl::IsCancelled(status);
    });
  }
  store_.WaitForReads(SliceSender::kMaxReading);
  // All are inside once one more is refused.
  absl::Status refused;
  while (!absl::IsResourceExhausted(refused)) {
    std::atomic<bool> given_up{true};
    refused = sender_.Send(
        RequestOf(2, 3, 0, 1), [&given_up] { return given_up.load(); },
        [](const v1::SliceBytes&) { return true; });
  }
  EXPECT_EQ(store_.num_reads(), SliceSender::kMaxReading);
  cancelled = true;  // those that wait notice; those that read do afterwards
  store_.Open();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(num_good + num_cancelled, kAll);
  EXPECT_GE(num_cancelled.load(), 1);
  EXPECT_TRUE(Send(RequestOf(2, 3, 0, 1)).ok());
}

// A caller on a thread of its own.
class Caller {
 public:
  Caller(SliceSender& sender, const v1::ReadSlicesRequest& request)
      : thread_([this, &sender, request] {
          status_ = sender.Send(
              request,
              [this] {
                asked_ = true;
                return cancelled_.load();
              },
              [](const v1::SliceBytes&) { return true; });
        }) {}
  // It has come so far that it asks whether it was cancelled.
  void WaitUntilInside() {
    while (!asked_) std::this_thread::yield();
  }
  absl::Status Cancel() {
    cancelled_ = true;
    return Join();
  }
  absl::Status Join() {
    thread_.join();
    return status_;
  }

 private:
  std::atomic<bool> asked_{false};
  std::atomic<bool> cancelled_{false};
  absl::Status status_;
  std::thread thread_;
};

TEST_F(SliceSenderTest, OneCopyIsReadAtATimeAndLayersAreReadBesides) {
  SliceSender sender(SmallSpec(kShape), "aa11", store_, /*copies_at_once=*/1);
  v1::ReadSlicesRequest copy = RequestOf(2, 3, 0, 1);
  copy.set_is_copy(true);
  store_.Hold();
  Caller first(sender, copy);
  store_.WaitForReads(1);
  Caller second(sender, copy);
  second.WaitUntilInside();
  Caller layer(sender, RequestOf(2, 4, 0, 1));
  store_.WaitForReads(2);  // of the copy and of the layer
  EXPECT_TRUE(absl::IsCancelled(second.Cancel()));
  store_.Open();
  EXPECT_TRUE(first.Join().ok());
  EXPECT_TRUE(layer.Join().ok());
  EXPECT_EQ(store_.num_reads(), 2);
}

TEST_F(SliceSenderTest, CopiesOfManyCallersLeaveRoomForLayers) {
  v1::ReadSlicesRequest copy = RequestOf(2, 3, 0, 1);
  copy.set_is_copy(true);
  store_.Hold();
  std::vector<std::unique_ptr<Caller>> copies;
  for (int i = 0; i < SliceSender::kMaxReading; ++i) {
    copies.push_back(std::make_unique<Caller>(sender_, copy));
  }
  store_.WaitForReads(SliceSender::kMaxReading);
  Caller layer(sender_, RequestOf(2, 4, 0, 1));
  store_.WaitForReads(SliceSender::kMaxReading + 1);
  store_.Open();
  EXPECT_TRUE(layer.Join().ok());
  for (const auto& one : copies) EXPECT_TRUE(one->Join().ok());
}

}  // namespace
}  // namespace deltafin
