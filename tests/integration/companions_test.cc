// A request's tokens and logits are the same alone and in company, over one
// process and over nodes: requests join and leave while it generates.

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/digest.h"
#include "common/base/mutex.h"
#include "coordinator/coordinator.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);

// A flag that one thread sets and others await.
class Event {
 public:
  void Set() {
    MutexLock lock(mutex_);
    set_ = true;
    changed_.NotifyAll();
  }
  bool Wait() {
    const absl::Time deadline = absl::Now() + kPatience;
    MutexLock lock(mutex_);
    while (!set_) {
      if (!changed_.WaitUntil(mutex_, deadline) && absl::Now() >= deadline) {
        return set_;
      }
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
};

// Collects ids and hashes logits. At its `pause_at`th token it holds the engine
// until released, so that others surely join before the next step.
class HashingSink : public TokenSink {
 public:
  explicit HashingSink(size_t pause_at = 0) : pause_at_(pause_at) {}

  SinkAction OnToken(const TokenEvent& event) override {
    ids_.push_back(event.id);
    if (ids_.size() == pause_at_) {
      paused_.Set();
      EXPECT_TRUE(release_.Wait());
    }
    return SinkAction::kContinue;
  }
  void OnLogits(int64_t, std::span<const float> logits) override {
    hash_.Update(
        {reinterpret_cast<const uint8_t*>(logits.data()), logits.size_bytes()});
  }
  void OnFinish(const RequestResult& result) override {
    EXPECT_TRUE(result.status.ok()) << result.status;
    if (on_finish_) on_finish_();
    finished_.Set();
  }
  void set_on_finish(std::function<void()> f) { on_finish_ = std::move(f); }

  Event& paused() { return paused_; }
  Event& release() { return release_; }
  // The ids, then a digest of all logits rows. REQUIRES: called once.
  std::string Result() {
    EXPECT_TRUE(finished_.Wait());
    std::string result;
    for (const int32_t id : ids_) result += std::to_string(id) + ' ';
    return result + hash_.FinishHex();
  }
  size_t num_tokens() const { return ids_.size(); }

 private:
  const size_t pause_at_;
  std::vector<int32_t> ids_;
  Sha256 hash_;
  Event paused_, release_, finished_;
  std::function<void()> on_finish_;
};

GenerationRequest Request(int first_id, int num_ids, int num_tokens) {
  GenerationRequest request;
  for (int i = 0; i < num_ids; ++i) {
    request.prompt_ids.push_back((first_id + 41 * i) % 3840);
  }
  request.max_new_tokens = num_tokens;
  request.ignore_eos = true;
  request.want_all_logits = true;
  return request;
}

// The main request is longer than its companions, which leave before it ends.
std::vector<GenerationRequest> Requests() {
  std::vector<GenerationRequest> requests{Request(5, 30, 48), Request(99, 3, 5),
                                          Request(1200, 17, 9),
                                          Request(77, 41, 2)};
  requests[2].sampling.temperature = 1;
  requests[2].sampling.seed = 9;
  return requests;
}

class CompanionsTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    CoordinatorOptions options;
    options.model_dir = NanoModelDir();
    options.max_sequences = 4;
    options.prefill_chunk = 16;
    options.num_threads = 2;
    if (GetParam() > 0) {
      auto cluster = MiniCluster::Start({.num_nodes = GetParam()});
      ASSERT_TRUE(cluster.ok()) << cluster.status();
      cluster_ = *std::move(cluster);
      for (int i = 0; i < GetParam(); ++i) {
        options.nodes.push_back(cluster_->address(i));
      }
    }
    coordinator_ = std::make_unique<Coordinator>(options);
    const absl::Status init = coordinator_->Init();
    ASSERT_TRUE(init.ok()) << init;
    ASSERT_TRUE(coordinator_->Start().ok());
  }

  void Submit(const GenerationRequest& request, HashingSink& sink) {
    const auto id = coordinator_->scheduler().Submit(request, &sink);
    ASSERT_TRUE(id.ok()) << id.status();
  }

  std::unique_ptr<MiniCluster> cluster_;
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_P(CompanionsTest, CompanyChangesNoBit) {
  const std::vector<GenerationRequest> requests = Requests();
  std::vector<std::string> alone;
  for (const GenerationRequest& request : requests) {
    HashingSink sink;
    Submit(request, sink);
    alone.push_back(sink.Result());
  }
  const SchedulerStats before = coordinator_->scheduler().stats();
  EXPECT_EQ(before.steps_with_two_or_more, 0);
  EXPECT_EQ(before.max_sequences_in_step, 1);

  HashingSink main(/*pause_at=*/3);
  Submit(requests[0], main);
  ASSERT_TRUE(main.paused().Wait());
  std::array<HashingSink, 3> others;
  std::vector<size_t> left_at;  // tokens of the main request by then
  for (size_t i = 0; i < others.size(); ++i) {
    others[i].set_on_finish(
        [&left_at, &main] { left_at.push_back(main.num_tokens()); });
    Submit(requests[i + 1], others[i]);  // joins after the third token
  }
  main.release().Set();

  EXPECT_EQ(main.Result(), alone[0]);
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(others[i].Result(), alone[i + 1]) << "companion " << i;
  }
  ASSERT_EQ(left_at.size(), 3u);
  for (const size_t tokens : left_at) {
    EXPECT_GT(tokens, 3u);
    EXPECT_LT(tokens, 48u) << "left after the main request had ended";
  }
  const SchedulerStats after = coordinator_->scheduler().stats();
  EXPECT_GE(after.max_sequences_in_step, 3);
  EXPECT_GE(after.steps_with_two_or_more, 9);
}

INSTANTIATE_TEST_SUITE_P(Nodes, CompanionsTest, ::testing::Values(0, 2));

}  // namespace
}  // namespace deltafin::testing
