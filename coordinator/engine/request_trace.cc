#include "coordinator/engine/request_trace.h"

#include <algorithm>
#include <utility>

namespace deltafin {
namespace {

void AddTo(
    const StepTrace& step,
    google::protobuf::RepeatedPtrField<v1::Explanation::Part>* parts,
    google::protobuf::RepeatedPtrField<v1::Explanation::SlowLayer>* layers) {
  v1::Explanation::Part* const spine = parts->Add();
  spine->set_where("spine");
  spine->set_seconds(std::max(0.0, step.seconds - step.experts.waited()));
  step.experts.ToProto(parts, layers);
}

}  // namespace

void RequestTrace::AddStep(const StepTrace& step) {
  current_.seconds += step.seconds;
  current_.experts.Add(step.experts);
}

void RequestTrace::TokenDrawn() {
  const uint32_t token = num_tokens_++;
  if (token == 0) {
    std::swap(prompt_, current_);
  } else if (current_.seconds > slowest_.seconds) {
    std::swap(slowest_, current_);
    slowest_token_ = token;
  }
  current_.seconds = 0;
  current_.experts.Clear();
}

v1::Explanation RequestTrace::ToProto() const {
  v1::Explanation explanation;
  explanation.set_tokens(num_tokens_);
  const StepTrace& prompt = num_tokens_ == 0 ? current_ : prompt_;
  explanation.set_prompt_seconds(prompt.seconds);
  AddTo(prompt, explanation.mutable_prompt_parts(),
        explanation.mutable_prompt_layers());
  if (slowest_token_ == 0) return explanation;
  explanation.set_slowest_token(slowest_token_);
  explanation.set_slowest_seconds(slowest_.seconds);
  AddTo(slowest_, explanation.mutable_parts(), explanation.mutable_layers());
  return explanation;
}

}  // namespace deltafin
