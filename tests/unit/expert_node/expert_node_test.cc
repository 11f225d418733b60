// The node behind real sockets: what a coordinator sees.

#include "expert_node/expert_node.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "common/net/grpc_status.h"
#include "proto/expert.grpc.pb.h"
#include "proto/protocol_version.h"
#include "tests/testing/host_card.h"
#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {
namespace {

constexpr ExpertShape kShape = {96, 544};
constexpr int kSlices = 3;

using Stream = grpc::ClientReaderWriter<v1::NodeRequest, v1::LayerReply>;

// A coordinator's end of one stream. Ended by its destructor.
class Caller {
 public:
  explicit Caller(std::shared_ptr<grpc::Channel> channel)
      : stub_(v1::ExpertService::NewStub(channel)),
        stream_(stub_->RunLayers(&context_)) {}
  ~Caller() {
    context_.TryCancel();
    if (!finished_) Finish().IgnoreError();
  }

  void Send(const v1::LayerRequest& request) {
    v1::NodeRequest message;
    *message.mutable_layer() = request;
    EXPECT_TRUE(stream_->Write(message));
  }
  void Cancel(uint64_t epoch, uint64_t step) {
    v1::NodeRequest message;
    message.mutable_cancel()->set_epoch(epoch);
    message.mutable_cancel()->set_step(step);
    EXPECT_TRUE(stream_->Write(message));
  }
  v1::LayerReply Receive() {
    v1::LayerReply reply;
    EXPECT_TRUE(stream_->Read(&reply));
    return reply;
  }
  absl::Status Finish() {
    finished_ = true;
    stream_->WritesDone();
    v1::LayerReply reply;
    while (stream_->Read(&reply)) ++late_replies;
    return FromGrpc(stream_->Finish());
  }
  void Disconnect() { context_.TryCancel(); }

  int late_replies = 0;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::ExpertService::Stub> stub_;
  std::unique_ptr<Stream> stream_;
  bool finished_ = false;
};

class ExpertNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.manifest_digest = "aa11";
    options_.listen = "127.0.0.1:0";
    options_.num_threads = 2;
    options_.ram_bytes = size_t{1} << 20;
    options_.max_request_tokens = 16;
    MakeNode();
  }

  void MakeNode() {
    auto experts = std::make_unique<GeneratedStore>(kShape);
    store_ = experts.get();
    auto node = ExpertNode::CreateOver(options_, spec_, std::move(experts));
    ASSERT_TRUE(node.ok()) << node.status();
    node_ = *std::move(node);
    const absl::Status started = node_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  std::shared_ptr<grpc::Channel> Channel() const {
    return grpc::CreateChannel(node_->address(),
                               grpc::InsecureChannelCredentials());
  }

  // Blocks until the node's counters say so; a test that waits in vain ends by
  // ctest's time limit.
  template <typename Predicate>
  void WaitFor(Predicate predicate) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!predicate(node_->counters())) {
      ASSERT_LT(absl::Now(), deadline) << "what was waited for did not come";
      std::this_thread::yield();
    }
  }

  void ExpectSums(const v1::LayerReply& reply, const LayerWork& work) {
    ASSERT_EQ(reply.status_code(), 0u) << reply.status_message();
    std::vector<int64_t> sums(reply.sums().size() / sizeof(int64_t));
    std::memcpy(sums.data(), reply.sums().data(), reply.sums().size());
    EXPECT_EQ(sums, DefinedSums(spec_, work));
  }

  const ModelSpec spec_ = SmallSpec(kShape);
  ExpertNodeOptions options_;
  GeneratedStore* store_ = nullptr;
  std::unique_ptr<ExpertNode> node_;
};

TEST_F(ExpertNodeTest, ComputesOnTheCardsThatItIsTold) {
  testing::HostCardOrders orders;
  orders.memory_bytes = uint64_t{2} << 30;
  options_.cards = {5};
  options_.open_card = [&](int index, const CardLimits& limits) {
    EXPECT_EQ(index, 5);
    return testing::MakeHostCard("host card", limits, orders);
  };
  MakeNode();
  const LayerWork work = GeneratedWork(spec_, 2, 5, 1);
  {
    Caller caller(Channel());
    // The processor computes some of what is not on the card yet.
    int num_requests = 0;
    CardTierStats tiers;
    do {
      caller.Send(RequestOf(work));
      const v1::LayerReply reply = caller.Receive();
      ExpectSums(reply, work);
      EXPECT_EQ(reply.cache_misses() > 0, num_requests == 0);
      ++num_requests;
      tiers = node_->cards().tiers;
    } while (tiers.hits == 0 && num_requests < 100);
    EXPECT_GT(tiers.hits, 0u);
    EXPECT_EQ((tiers.hits + tiers.misses) % num_requests, 0u);
    EXPECT_LT(tiers.computed, tiers.misses);
    orders.fail_from = 0;
    caller.Send(RequestOf(work));
    ExpectSums(caller.Receive(), work);
    EXPECT_EQ(node_->cards().num_failed, 1);
  }
  node_.reset();  // before what its card needs
}

TEST_F(ExpertNodeTest, AnswersALayerRequestWithSumsTimingsAndCounters) {
  const LayerWork work = GeneratedWork(spec_, 2, 5, 1);
  Caller caller(Channel());
  caller.Send(RequestOf(work));
  const v1::LayerReply reply = caller.Receive();
  ExpectSums(reply, work);
  EXPECT_EQ(reply.epoch(), work.epoch);
  EXPECT_EQ(reply.step(), work.step);
  EXPECT_EQ(reply.layer(), 2u);
  EXPECT_EQ(std::vector<int>(reply.token().begin(), reply.token().end()),
            (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(reply.slices_computed(), 5u * 4 * kSlices);
  EXPECT_TRUE(reply.has_timings());
  EXPECT_GT(reply.cache_misses(), 0u);
  const v1::NodeCounters counters = node_->counters();
  EXPECT_EQ(counters.layer_requests(), 1u);
  EXPECT_EQ(counters.slices_computed(), 5u * 4 * kSlices);
  EXPECT_EQ(counters.bytes_read(), reply.bytes_read());
}

TEST_F(ExpertNodeTest, GivesTheSameThroughTheInProcessChannel) {
  const LayerWork work = GeneratedWork(spec_, 2, 5, 1);
  Caller caller(node_->InProcessChannel());
  caller.Send(RequestOf(work));
  ExpectSums(caller.Receive(), work);
}

TEST_F(ExpertNodeTest, AnswersABadRequestAndServesTheNextOnTheSameStream) {
  const LayerWork work = GeneratedWork(spec_, 2, 5, 1);
  v1::LayerRequest bad = RequestOf(work);
  bad.set_expert(3, 99);
  bad.set_part(4);
  Caller caller(Channel());
  caller.Send(bad);
  caller.Send(RequestOf(work));
  const v1::LayerReply refusal = caller.Receive();
  EXPECT_EQ(refusal.status_code(),
            static_cast<uint32_t>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(refusal.status_message(), "expert[3]: 99, the model has 8");
  EXPECT_EQ(refusal.part(), 4u);
  ExpectSums(caller.Receive(), work);
  EXPECT_EQ(node_->counters().refused_requests(), 1u);
}

TEST_F(ExpertNodeTest, ServesTwoCoordinatorsAtOnce) {
  std::vector<std::thread> coordinators;
  for (int c = 0; c < 2; ++c) {
    coordinators.emplace_back([this, c] {
      Caller caller(Channel());
      for (int layer = 1; layer < 5; ++layer) {
        const LayerWork work = GeneratedWork(spec_, layer, 3, c);
        caller.Send(RequestOf(work));
        ExpectSums(caller.Receive(), work);
      }
    });
  }
  for (std::thread& coordinator : coordinators) coordinator.join();
}

// Sends raw bytes as one message of RunLayers; returns the call's status.
absl::Status SendBytes(std::shared_ptr<grpc::Channel> channel,
                       const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(&context, "/deltafin.v1.ExpertService/RunLayers",
                               &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(bytes);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer reply;
  call->Read(&reply, nullptr);
  queue.Next(&tag, &ok);
  EXPECT_FALSE(ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return FromGrpc(status);
}

TEST_F(ExpertNodeTest, BytesThatAreNoMessageEndTheirStreamOnly) {
  const absl::Status status = SendBytes(Channel(), "\x0a\xff\xff no message");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("14 bytes is no NodeRequest"),
            std::string::npos)
      << status;
  const LayerWork work = GeneratedWork(spec_, 2, 1, 1);
  Caller caller(Channel());
  caller.Send(RequestOf(work));
  ExpectSums(caller.Receive(), work);
}

TEST_F(ExpertNodeTest, AMessageWithoutARequestEndsItsStreamOnly) {
  const absl::Status status = SendBytes(Channel(), "");
  EXPECT_EQ(status,
            absl::InvalidArgumentError(
                "request: missing, want layer, cancel or expect; the stream "
                "ends"));
  const LayerWork work = GeneratedWork(spec_, 2, 1, 1);
  Caller caller(Channel());
  caller.Send(RequestOf(work));
  ExpectSums(caller.Receive(), work);
}

TEST_F(ExpertNodeTest, AMessageOverTheBoundEndsItsStreamOnly) {
  const absl::Status status =
      SendBytes(Channel(), std::string(size_t{1} << 20, 'x'));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const LayerWork work = GeneratedWork(spec_, 2, 1, 1);
  Caller caller(Channel());
  caller.Send(RequestOf(work));
  ExpectSums(caller.Receive(), work);
}

TEST_F(ExpertNodeTest, CancellingAStepFreesTheNodeAndAnswersEveryRequest) {
  store_->Hold();
  Caller caller(Channel());
  LayerWork work = GeneratedWork(spec_, 2, 5, 1);
  for (work.part = 0; work.part < 3; ++work.part) caller.Send(RequestOf(work));
  store_->WaitForReads(1);
  WaitFor([](const auto& c) { return c.queue_depth() == 3; });
  caller.Cancel(work.epoch, work.step);
  LayerWork next = GeneratedWork(spec_, 1, 1, 2);
  next.step = work.step + 1;
  caller.Send(RequestOf(next));
  // The cancellation was handled once the request behind it is inside, or once
  // one before it was answered: that one may have been cancelled before it came
  // to wait for its first slice.
  WaitFor(
      [](const auto& c) { return c.queue_depth() + c.layer_requests() >= 4; });
  store_->Open();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(caller.Receive().status_code(),
              static_cast<uint32_t>(absl::StatusCode::kCancelled));
  }
  ExpectSums(caller.Receive(), next);
  EXPECT_EQ(node_->counters().cancelled_requests(), 3u);
}

TEST_F(ExpertNodeTest, ADisconnectedCoordinatorsRequestsAreDropped) {
  store_->Hold();
  Caller caller(Channel());
  for (int i = 0; i < 3; ++i) {
    caller.Send(RequestOf(GeneratedWork(spec_, 2, 5, 1)));
  }
  store_->WaitForReads(1);
  WaitFor([](const auto& c) { return c.queue_depth() == 3; });
  caller.Disconnect();
  // At most the running one is left; it may have ended, too.
  WaitFor([](const auto& c) { return c.queue_depth() <= 1; });
  store_->Open();
  WaitFor([](const auto& c) { return c.queue_depth() == 0; });
  EXPECT_EQ(node_->counters().cancelled_requests(), 3u);
  EXPECT_EQ(node_->counters().slices_computed(), 0u);
}

TEST_F(ExpertNodeTest, ShutdownFinishesWhatRunsAndEndsTheStreams) {
  store_->Hold();
  const LayerWork work = GeneratedWork(spec_, 2, 5, 1);
  Caller caller(Channel());
  caller.Send(RequestOf(work));
  store_->WaitForReads(1);
  std::thread shutdown([this] { node_->Shutdown(absl::InfiniteDuration()); });
  store_->Open();
  ExpectSums(caller.Receive(), work);
  EXPECT_FALSE(caller.Finish().ok());
  shutdown.join();
  node_->Shutdown(absl::ZeroDuration());  // again: nothing happens
}

TEST_F(ExpertNodeTest, ShutdownCancelsWhatOutlastsTheDrain) {
  store_->Hold();
  Caller caller(Channel());
  caller.Send(RequestOf(GeneratedWork(spec_, 2, 5, 1)));
  store_->WaitForReads(1);
  std::thread shutdown([this] { node_->Shutdown(absl::ZeroDuration()); });
  EXPECT_FALSE(caller.Finish().ok());
  store_->Open();
  shutdown.join();
  EXPECT_EQ(node_->counters().queue_depth(), 0u);
}

TEST_F(ExpertNodeTest, TheHandshakeTellsWhoTheNodeIs) {
  const auto stub = v1::ExpertService::NewStub(Channel());
  v1::HandshakeRequest request;
  request.set_manifest_digest("aa11");
  request.set_wire_version(kWireVersion);
  request.set_numerics_version(kNumericsVersion);
  grpc::ClientContext context;
  v1::HandshakeReply reply;
  const grpc::Status status = stub->Handshake(&context, request, &reply);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(reply.kernel(), BestKernel().name);
  EXPECT_EQ(reply.threads(), 2u);
  EXPECT_EQ(reply.ram_bytes(), uint64_t{1} << 20);

  request.set_manifest_digest("bb22");
  grpc::ClientContext again;
  EXPECT_EQ(stub->Handshake(&again, request, &reply).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(ExpertNodeTest, APortInUseIsRefusedWithOneSentence) {
  options_.listen = node_->address();
  auto second = ExpertNode::CreateOver(
      options_, spec_, std::make_unique<GeneratedStore>(kShape));
  ASSERT_TRUE(second.ok());
  const absl::Status status = (*second)->Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find(node_->address()),
            std::string::npos)
      << status;
}

TEST_F(ExpertNodeTest, HoldsRepliesBackWhenToldSo) {
  std::atomic<int> asked{0};
  options_.reply_delay = [&asked] {
    ++asked;
    return absl::Microseconds(1);
  };
  MakeNode();
  Caller caller(Channel());
  const LayerWork work = GeneratedWork(spec_, 2, 1, 1);
  caller.Send(RequestOf(work));
  ExpectSums(caller.Receive(), work);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace deltafin
