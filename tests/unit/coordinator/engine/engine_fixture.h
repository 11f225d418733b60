// tests/unit/coordinator/engine/engine_fixture.h
//
// A scheduler over a fake spine and fake experts, started.
#pragma once

#include <utility>
#include <vector>

#include "common/base/check.h"
#include "coordinator/engine/scheduler.h"
#include "tests/testing/fake_routed_experts.h"
#include "tests/testing/fake_spine.h"
#include "tests/testing/token_recorder.h"

namespace deltafin::testing {

struct Engine {
  explicit Engine(const SchedulerOptions& options = {},
                  FakeSpineOptions spine_options = {})
      : spine(std::move(spine_options)),
        experts(spine.spec().expert_shape()),
        forward(spine, experts),
        scheduler(options, forward) {}

  void Start() { CHECK_OK(scheduler.Start()); }

  RequestId Submit(GenerationRequest request, TokenRecorder* recorder) {
    const auto id = scheduler.Submit(std::move(request), recorder);
    CHECK_OK(id.status());
    return *id;
  }

  FakeSpine spine;
  FakeRoutedExperts experts;
  ForwardPass forward;
  Scheduler scheduler;
};

inline GenerationRequest MakeRequest(std::vector<int32_t> prompt_ids,
                                     int max_new_tokens) {
  GenerationRequest request;
  request.prompt_ids = std::move(prompt_ids);
  request.max_new_tokens = max_new_tokens;
  request.ignore_eos = true;
  return request;
}

// What the request gives in an engine of its own.
inline std::vector<int32_t> IdsAlone(const GenerationRequest& request) {
  Engine engine;
  engine.Start();
  TokenRecorder recorder;
  engine.Submit(request, &recorder);
  CHECK_OK(recorder.AwaitFinish().status);
  return recorder.ids();
}

}  // namespace deltafin::testing
