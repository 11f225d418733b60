// coordinator/engine/request_trace.h
//
// Where the time of one request's prompt and of its slowest later token went.
// Thread-compatible.
#pragma once

#include <cstdint>

#include "coordinator/engine/expert_trace.h"
#include "proto/admin.pb.h"

namespace deltafin {

// Where the time of one step went, or of all steps that led to one token. Steps
// are shared with companions: each of them has all of the step's time.
struct StepTrace {
  double seconds = 0;
  ExpertTrace experts;
};

class RequestTrace {
 public:
  // A step that the request had a part in.
  void AddStep(const StepTrace& step);
  // The last step gave a token.
  void TokenDrawn();

  // All but request and seconds.
  v1::Explanation ToProto() const;

 private:
  StepTrace current_;  // towards the next token
  StepTrace prompt_;   // to the first token
  StepTrace slowest_;  // later token
  uint32_t num_tokens_ = 0;
  uint32_t slowest_token_ = 0;
};

}  // namespace deltafin
