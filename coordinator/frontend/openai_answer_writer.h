// coordinator/frontend/openai_answer_writer.h
//
// Brings an answer to its client, as it grows or whole.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/net/http_message.h"
#include "coordinator/frontend/openai_answer.h"
#include "coordinator/frontend/server_sent_events.h"
#include "coordinator/frontend/stream_pulse.h"

namespace deltafin {

// Calls come one at a time, from any thread; none blocks. Begin, then pieces
// and ends of choices, then End or Fail. One that was not begun sends nothing.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual void Begin() = 0;
  // False: nobody reads any more.
  virtual bool Piece(int choice, const ChoiceText& piece) = 0;
  virtual void ChoiceEnd(int choice, FinishReason reason) = 0;
  virtual void End(const AnswerUsage& usage) = 0;
  virtual void Fail(const absl::Status& status) = 0;
};

// As server-sent events.
class StreamedAnswer final : public AnswerWriter {
 public:
  StreamedAnswer(std::unique_ptr<AnswerFormat> format,
                 std::shared_ptr<EventStream> stream,
                 std::shared_ptr<HttpReply> reply, HttpHeaders headers);

  void Begin() override;
  bool Piece(int choice, const ChoiceText& piece) override;
  void ChoiceEnd(int choice, FinishReason reason) override;
  void End(const AnswerUsage& usage) override;
  void Fail(const absl::Status& status) override;

 private:
  const std::unique_ptr<AnswerFormat> format_;
  const std::shared_ptr<EventStream> stream_;
  std::shared_ptr<HttpReply> reply_;
  HttpHeaders headers_;
};

// As one JSON object. Clients give up when no header comes for some minutes, so
// one that takes longer than `patience` begins with status 200 and white space,
// which JSON allows; what goes wrong after that is told by the body alone.
class WholeAnswer final : public AnswerWriter, public Pulsed {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(60);
  static constexpr absl::Duration kKeepAlive = absl::Seconds(10);

  // `clock` must outlive this.
  WholeAnswer(std::unique_ptr<AnswerFormat> format, int num_choices,
              std::shared_ptr<HttpReply> reply, HttpHeaders headers,
              const Clock& clock);

  void Begin() override;
  bool Piece(int choice, const ChoiceText& piece) override;
  void ChoiceEnd(int choice, FinishReason reason) override;
  void End(const AnswerUsage& usage) override;
  void Fail(const absl::Status& status) override;

  bool OnPulse() override;

 private:
  void Send(int status, std::string body);

  const std::unique_ptr<AnswerFormat> format_;
  const std::shared_ptr<HttpReply> reply_;
  const HttpHeaders headers_;
  const Clock& clock_;
  std::vector<Choice> choices_;
  Mutex mutex_;
  absl::Duration next_sign_ ABSL_GUARDED_BY(mutex_);
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;  // the stream of white space
  bool is_sent_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace deltafin
