#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <thread>

#include "coordinator/engine/scheduler.h"
#include "tests/unit/coordinator/engine/engine_fixture.h"

namespace deltafin {
namespace {

using testing::Engine;
using testing::IdsAlone;
using testing::MakeRequest;
using testing::TokenRecorder;

GenerationRequest RequestOf(int kind) {
  GenerationRequest request = MakeRequest({kind, kind + 1, kind + 2}, 1 + kind);
  request.sampling.temperature = kind % 2 == 0 ? 0 : 1;
  return request;
}

constexpr int kKinds = 5;

// Submits requests and cancels some of them; every sink must hear the end once.
void SubmitAndCancel(Engine& engine, unsigned seed,
                     std::deque<TokenRecorder>* recorders,
                     std::vector<int>* kinds) {
  std::mt19937 random(seed);
  for (int i = 0; i < 40; ++i) {
    TokenRecorder& recorder = recorders->emplace_back();
    const int kind = static_cast<int>(random() % kKinds);
    const auto id = engine.scheduler.Submit(RequestOf(kind), &recorder);
    if (!id.ok()) {
      recorders->pop_back();
      continue;
    }
    kinds->push_back(kind);
    if (random() % 3 == 0) engine.scheduler.Cancel(*id);
    if (random() % 4 == 0) recorder.AwaitFinish();
  }
}

TEST(SchedulerStressTest, EverySinkHearsTheEndOnceAndIdsNeverChange) {
  std::vector<std::vector<int32_t>> expected;
  for (int kind = 0; kind < kKinds; ++kind) {
    expected.push_back(IdsAlone(RequestOf(kind)));
  }
  SchedulerOptions options;
  options.max_sequences = 4;
  options.prefill_chunk = 4;
  options.max_queued = 30;
  Engine engine(options);
  engine.Start();
  std::deque<TokenRecorder> recorders[3];
  std::vector<int> kinds[3];
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back(SubmitAndCancel, std::ref(engine), i, &recorders[i],
                         &kinds[i]);
  }
  for (std::thread& thread : threads) thread.join();
  std::thread watcher([&engine] {
    while (engine.scheduler.stats().requests_finished < 20) {
      std::this_thread::yield();
    }
  });
  watcher.join();
  engine.scheduler.Shutdown();
  for (int i = 0; i < 3; ++i) {
    for (size_t j = 0; j < recorders[i].size(); ++j) {
      EXPECT_EQ(recorders[i][j].num_finishes(), 1);
      if (!recorders[i][j].AwaitFinish().status.ok()) continue;
      EXPECT_EQ(recorders[i][j].ids(), expected[kinds[i][j]]);
    }
  }
  EXPECT_EQ(engine.spine.num_sequences(), 0);
}

}  // namespace
}  // namespace deltafin
