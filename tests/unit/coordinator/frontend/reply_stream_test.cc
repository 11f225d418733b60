#include "coordinator/frontend/reply_stream.h"

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "gtest/gtest.h"

namespace deltafin {
namespace {

v1::GenerateReply Reply(uint32_t id) {
  v1::GenerateReply reply;
  reply.set_has_token(true);
  reply.set_id(id);
  return reply;
}

// Keeps what it is given; writes are done when the test says so.
class RecordingTransport : public ReplyTransport {
 public:
  void Write(const v1::GenerateReply& reply) override {
    ids.push_back(reply.id());
    ++outstanding;
  }
  void End(const absl::Status& status) override { end = status; }

  std::vector<uint32_t> ids;
  int outstanding = 0;
  std::optional<absl::Status> end;
};

TEST(ReplyStreamTest, WritesOneReplyAtATimeInOrder) {
  RecordingTransport transport;
  ReplyStream stream(transport, 1000);
  for (uint32_t id = 1; id <= 3; ++id) EXPECT_TRUE(stream.Add(Reply(id)));
  EXPECT_EQ(transport.outstanding, 1);
  stream.WriteDone(true);
  stream.WriteDone(true);
  EXPECT_EQ(transport.ids, (std::vector<uint32_t>{1, 2, 3}));
}

TEST(ReplyStreamTest, EndsAfterTheLastWrite) {
  RecordingTransport transport;
  ReplyStream stream(transport, 1000);
  stream.Add(Reply(1));
  stream.Finish(absl::OkStatus());
  EXPECT_FALSE(transport.end.has_value());
  stream.WriteDone(true);
  EXPECT_EQ(transport.end, absl::OkStatus());
}

TEST(ReplyStreamTest, EndsAtOnceWhenNothingWaits) {
  RecordingTransport transport;
  ReplyStream stream(transport, 1000);
  stream.Finish(absl::InvalidArgumentError("no"));
  EXPECT_EQ(transport.end, absl::InvalidArgumentError("no"));
}

TEST(ReplyStreamTest, AClientThatDoesNotReadIsCutOffAtTheBound) {
  RecordingTransport transport;
  ReplyStream stream(transport, 100);
  uint32_t taken = 0;
  while (stream.Add(Reply(7))) ASSERT_LT(++taken, 100u);
  EXPECT_EQ(taken, 100 / Reply(7).ByteSizeLong());
  EXPECT_FALSE(stream.Add(Reply(7)));
  stream.Finish(absl::OkStatus());
  for (uint32_t i = 0; i < taken; ++i) stream.WriteDone(true);
  EXPECT_EQ(transport.ids.size(), taken);
  EXPECT_TRUE(absl::IsResourceExhausted(*transport.end));
}

TEST(ReplyStreamTest, ReadingMakesRoom) {
  RecordingTransport transport;
  ReplyStream stream(transport, 2 * Reply(1).ByteSizeLong());
  for (uint32_t id = 1; id < 50; ++id) {
    EXPECT_TRUE(stream.Add(Reply(id)));
    EXPECT_TRUE(stream.Add(Reply(id)));
    stream.WriteDone(true);
    stream.WriteDone(true);
  }
}

TEST(ReplyStreamTest, OneReplyMayExceedTheBound) {
  RecordingTransport transport;
  ReplyStream stream(transport, 10);
  v1::GenerateReply large;
  large.set_text_delta(std::string(1000, 'x'));
  EXPECT_TRUE(stream.Add(large));
}

TEST(ReplyStreamTest, ALostClientEndsTheStream) {
  RecordingTransport transport;
  ReplyStream stream(transport, 1000);
  stream.Add(Reply(1));
  stream.Add(Reply(2));
  stream.WriteDone(false);
  EXPECT_FALSE(stream.Add(Reply(3)));
  EXPECT_FALSE(transport.end.has_value());
  stream.Finish(absl::OkStatus());
  EXPECT_TRUE(absl::IsCancelled(*transport.end));
  EXPECT_EQ(transport.ids, (std::vector<uint32_t>{1}));
}

// Completes writes on a thread of its own, as gRPC does.
class ThreadedTransport : public ReplyTransport {
 public:
  void Write(const v1::GenerateReply& reply) override {
    MutexLock lock(mutex_);
    ids_.push_back(reply.id());
    pending_ = true;
    changed_.NotifyAll();
  }
  void End(const absl::Status&) override {
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  void CompleteWrites(ReplyStream& stream) {
    while (true) {
      {
        MutexLock lock(mutex_);
        while (!pending_ && !ended_) changed_.Wait(mutex_);
        if (ended_) return;
        pending_ = false;
      }
      stream.WriteDone(true);
    }
  }
  std::vector<uint32_t> ids() {
    MutexLock lock(mutex_);
    return ids_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<uint32_t> ids_ ABSL_GUARDED_BY(mutex_);
};

TEST(ReplyStreamTest, LosesNothingBetweenTwoThreads) {
  ThreadedTransport transport;
  ReplyStream stream(transport, 1 << 20);
  std::thread completer([&] { transport.CompleteWrites(stream); });
  for (uint32_t id = 0; id < 5000; ++id) ASSERT_TRUE(stream.Add(Reply(id)));
  stream.Finish(absl::OkStatus());
  completer.join();
  const auto ids = transport.ids();
  ASSERT_EQ(ids.size(), 5000u);
  for (uint32_t id = 0; id < 5000; ++id) EXPECT_EQ(ids[id], id);
}

}  // namespace
}  // namespace deltafin
