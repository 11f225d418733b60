// tests/testing/token_recorder.h
//
// A sink that keeps what it is given. The engine thread writes; AwaitFinish and
// AwaitTokens may be called from any thread, the rest after AwaitFinish.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/engine/request.h"

namespace deltafin::testing {

class TokenRecorder : public TokenSink {
 public:
  struct Token {
    int32_t id = 0;
    int64_t position = 0;
    float logprob = 0;
    std::vector<TokenLogprob> top_logprobs;
  };

  SinkAction OnToken(const TokenEvent& event) override;
  void OnLogits(int64_t position, std::span<const float> logits) override;
  void OnFinish(const RequestResult& result) override;

  // Decides what OnToken answers; called with the number of tokens so far.
  std::function<SinkAction(size_t num_tokens)> on_token;

  // Blocks until OnFinish.
  const RequestResult& AwaitFinish();
  // Blocks until so many tokens came or the request is finished.
  void AwaitTokens(size_t count);

  std::vector<int32_t> ids() const;
  const std::vector<Token>& tokens() const { return tokens_; }
  const std::vector<int64_t>& logits_positions() const {
    return logits_positions_;
  }
  const std::vector<std::vector<float>>& logits() const { return logits_; }
  int num_finishes() const { return num_finishes_; }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Token> tokens_;
  std::vector<int64_t> logits_positions_;
  std::vector<std::vector<float>> logits_;
  RequestResult result_;
  int num_finishes_ = 0;
};

}  // namespace deltafin::testing
