#include "tests/testing/token_recorder.h"

namespace deltafin::testing {

SinkAction TokenRecorder::OnToken(const TokenEvent& event) {
  size_t count = 0;
  {
    MutexLock lock(mutex_);
    tokens_.push_back({event.id,
                       event.position,
                       event.logprob,
                       {event.top_logprobs.begin(), event.top_logprobs.end()}});
    count = tokens_.size();
    changed_.NotifyAll();
  }
  return on_token ? on_token(count) : SinkAction::kContinue;
}

void TokenRecorder::OnLogits(int64_t position, std::span<const float> logits) {
  MutexLock lock(mutex_);
  logits_positions_.push_back(position);
  logits_.emplace_back(logits.begin(), logits.end());
}

void TokenRecorder::OnFinish(const RequestResult& result) {
  MutexLock lock(mutex_);
  result_ = result;
  ++num_finishes_;
  changed_.NotifyAll();
}

const RequestResult& TokenRecorder::AwaitFinish() {
  MutexLock lock(mutex_);
  while (num_finishes_ == 0) changed_.Wait(mutex_);
  return result_;
}

void TokenRecorder::AwaitTokens(size_t count) {
  MutexLock lock(mutex_);
  while (tokens_.size() < count && num_finishes_ == 0) changed_.Wait(mutex_);
}

std::vector<int32_t> TokenRecorder::ids() const {
  std::vector<int32_t> ids;
  for (const Token& token : tokens_) ids.push_back(token.id);
  return ids;
}

}  // namespace deltafin::testing
