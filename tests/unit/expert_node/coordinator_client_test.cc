#include "expert_node/coordinator_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/net/grpc_status.h"
#include "common/net/server_lifecycle.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers as it is told, and writes down what was asked.
class FakeCoordinator final : public v1::ClusterService::Service {
 public:
  grpc::Status Join(grpc::ServerContext*, const v1::JoinRequest* request,
                    v1::JoinReply* reply) override {
    MutexLock lock(mutex_);
    Note("join");
    join_ = *request;
    reply->set_coordinator_id("c");
    reply->set_epoch(41);
    reply->set_heartbeat_ms(heartbeat_ms_);
    return ToGrpc(join_status_);
  }
  grpc::Status Heartbeat(grpc::ServerContext*,
                         const v1::HeartbeatRequest* request,
                         v1::HeartbeatReply* reply) override {
    MutexLock lock(mutex_);
    Note("beat");
    beat_ = *request;
    reply->set_epoch(42);
    return ToGrpc(std::exchange(beat_status_, absl::OkStatus()));
  }
  grpc::Status Leave(grpc::ServerContext*, const v1::LeaveRequest*,
                     v1::LeaveReply*) override {
    MutexLock lock(mutex_);
    Note("leave");
    return grpc::Status::OK;
  }

  void BeatEvery(uint32_t heartbeat_ms) {
    MutexLock lock(mutex_);
    heartbeat_ms_ = heartbeat_ms;
  }
  int NumCalls(const std::string& call) {
    MutexLock lock(mutex_);
    return static_cast<int>(std::count(calls_.begin(), calls_.end(), call));
  }
  // All answers to Join from now on.
  void AnswerJoins(const absl::Status& status) {
    MutexLock lock(mutex_);
    join_status_ = status;
  }
  // The next answer to Heartbeat.
  void AnswerBeat(const absl::Status& status) {
    MutexLock lock(mutex_);
    beat_status_ = status;
  }
  // Until `call` was made this often.
  void WaitFor(const std::string& call, int count) {
    MutexLock lock(mutex_);
    while (std::count(calls_.begin(), calls_.end(), call) < count) {
      called_.Wait(mutex_);
    }
  }
  // Until a heartbeat tells of holdings of this version.
  void WaitForHoldings(uint64_t version) {
    MutexLock lock(mutex_);
    while (beat_.holdings().version() != version) called_.Wait(mutex_);
  }
  // Until a heartbeat tells that the one before was answered.
  void WaitForAnsweredBeat() {
    MutexLock lock(mutex_);
    while (beat_.highest_epoch() != 42 || beat_.round_trip_us() == 0) {
      called_.Wait(mutex_);
    }
  }
  std::vector<std::string> calls() {
    MutexLock lock(mutex_);
    return calls_;
  }
  v1::JoinRequest join() {
    MutexLock lock(mutex_);
    return join_;
  }
  v1::HeartbeatRequest beat() {
    MutexLock lock(mutex_);
    return beat_;
  }

 private:
  void Note(const char* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    calls_.push_back(call);
    called_.NotifyAll();
  }

  Mutex mutex_;
  CondVar called_;
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mutex_);
  uint32_t heartbeat_ms_ ABSL_GUARDED_BY(mutex_) = 5;
  v1::JoinRequest join_ ABSL_GUARDED_BY(mutex_);
  v1::HeartbeatRequest beat_ ABSL_GUARDED_BY(mutex_);
  absl::Status join_status_ ABSL_GUARDED_BY(mutex_);
  absl::Status beat_status_ ABSL_GUARDED_BY(mutex_);
};

class CoordinatorClientTest : public ::testing::Test {
 protected:
  CoordinatorClientTest() {
    grpc::Service* const services[] = {&coordinator_};
    auto server = ServerLifecycle::Start({"127.0.0.1:0"}, services);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto folder = DataFolder::Open(dir_.path());
    EXPECT_TRUE(folder.ok()) << folder.status();
    folder_ = *std::move(folder);
  }

  void Connect() {
    CoordinatorClientOptions options;
    options.coordinator = server_->address();
    options.join.mutable_identity()->set_node_id(folder_->node_id());
    options.join.set_incarnation(7);
    options.capacity = [] {
      v1::NodeCapacity capacity;
      capacity.set_cores(3);
      return capacity;
    };
    options.load = [] { return v1::NodeLoad(); };
    options.holdings_version = [this] { return holdings_version_.load(); };
    options.holdings = [this] {
      v1::Holdings holdings;
      holdings.set_version(holdings_version_);
      return holdings;
    };
    options.on_refused = [this](const absl::Status& why) {
      MutexLock lock(mutex_);
      refusals_.push_back(std::string(why.message()));
      refused_.NotifyAll();
    };
    options.first_retry = absl::Milliseconds(1);
    options.last_retry = absl::Milliseconds(5);
    options.slow_retry = absl::Milliseconds(5);
    client_ = std::make_unique<CoordinatorClient>(std::move(options), *folder_);
  }

  TempDir dir_;
  std::atomic<uint64_t> holdings_version_{3};
  FakeCoordinator coordinator_;
  std::unique_ptr<ServerLifecycle> server_;
  std::unique_ptr<DataFolder> folder_;
  Mutex mutex_;
  CondVar refused_;
  std::vector<std::string> refusals_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<CoordinatorClient> client_;
};

TEST_F(CoordinatorClientTest, JoinsBeatsAndLeaves) {
  Connect();
  coordinator_.WaitForAnsweredBeat();
  client_.reset();
  const std::vector<std::string> calls = coordinator_.calls();
  EXPECT_EQ(calls.front(), "join");
  EXPECT_EQ(calls.back(), "leave");
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "join"), 1);
  EXPECT_EQ(coordinator_.join().capacity().cores(), 3u);
  EXPECT_EQ(coordinator_.join().highest_epoch(), 0u);
  EXPECT_EQ(coordinator_.beat().incarnation(), 7u);
  EXPECT_EQ(folder_->highest_epoch(), 42u);
}

TEST_F(CoordinatorClientTest, TellsItsHoldingsWhenItJoinsAndWhenTheyChange) {
  Connect();
  coordinator_.WaitForAnsweredBeat();
  EXPECT_EQ(coordinator_.join().holdings().version(), 3u);
  EXPECT_FALSE(coordinator_.beat().has_holdings());
  coordinator_.AnswerBeat(absl::UnavailableError("lost"));
  holdings_version_ = 4;
  coordinator_.WaitForHoldings(4);
  while (coordinator_.beat().has_holdings()) std::this_thread::yield();
  coordinator_.AnswerBeat(absl::NotFoundError("join again"));
  coordinator_.WaitFor("join", 2);
  EXPECT_EQ(coordinator_.join().holdings().version(), 4u);
}

TEST_F(CoordinatorClientTest, HurryBringsTheNextHeartbeatForward) {
  coordinator_.BeatEvery(600'000);
  Connect();
  coordinator_.WaitFor("beat", 1);
  for (int i = 2; i < 5; ++i) {
    // A heartbeat under way takes a hurry of before with it.
    while (coordinator_.NumCalls("beat") < i) {
      client_->Hurry();
      std::this_thread::yield();
    }
  }
}

TEST_F(CoordinatorClientTest, JoinsAgainWhenItIsNoMemberAnyMore) {
  Connect();
  coordinator_.WaitForAnsweredBeat();
  coordinator_.AnswerBeat(absl::NotFoundError("join again"));
  coordinator_.WaitFor("join", 2);
  EXPECT_EQ(coordinator_.join().highest_epoch(), 42u);
}

TEST_F(CoordinatorClientTest, ALostHeartbeatIsNoEndOfTheMembership) {
  Connect();
  coordinator_.WaitFor("beat", 1);
  coordinator_.AnswerBeat(absl::UnavailableError("busy"));
  const std::vector<std::string> calls = coordinator_.calls();
  coordinator_.WaitFor("beat", static_cast<int>(calls.size()) + 3);
  const std::vector<std::string> after = coordinator_.calls();
  EXPECT_EQ(std::count(after.begin(), after.end(), "join"), 1);
}

TEST_F(CoordinatorClientTest, ARefusalAtTheFirstJoinIsTheLastWord) {
  coordinator_.AnswerJoins(absl::FailedPreconditionError("other model"));
  Connect();
  {
    MutexLock lock(mutex_);
    while (refusals_.empty()) refused_.Wait(mutex_);
    EXPECT_THAT(refusals_, ElementsAre(HasSubstr("other model")));
  }
  client_.reset();
  EXPECT_THAT(coordinator_.calls(), ElementsAre("join"));
}

TEST_F(CoordinatorClientTest, ALaterRefusalIsTriedOn) {
  Connect();
  coordinator_.WaitFor("beat", 1);
  coordinator_.AnswerJoins(absl::FailedPreconditionError("other model"));
  coordinator_.AnswerBeat(absl::NotFoundError("join again"));
  coordinator_.WaitFor("join", 4);
  coordinator_.AnswerJoins(absl::OkStatus());
  const auto beats = coordinator_.calls();
  coordinator_.WaitFor(
      "beat",
      static_cast<int>(std::count(beats.begin(), beats.end(), "beat")) + 1);
  MutexLock lock(mutex_);
  EXPECT_TRUE(refusals_.empty());
}

TEST_F(CoordinatorClientTest, WhoIsUnavailableAtFirstIsTriedOn) {
  coordinator_.AnswerJoins(absl::UnavailableError("starting"));
  Connect();
  coordinator_.WaitFor("join", 3);
  coordinator_.AnswerJoins(absl::OkStatus());
  coordinator_.WaitFor("beat", 1);
}

}  // namespace
}  // namespace deltafin
