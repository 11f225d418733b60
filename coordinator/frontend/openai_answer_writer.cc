#include "coordinator/frontend/openai_answer_writer.h"

#include <utility>

#include "coordinator/frontend/openai_error.h"

namespace deltafin {

StreamedAnswer::StreamedAnswer(std::unique_ptr<AnswerFormat> format,
                               std::shared_ptr<EventStream> stream,
                               std::shared_ptr<HttpReply> reply,
                               HttpHeaders headers)
    : format_(std::move(format)),
      stream_(std::move(stream)),
      reply_(std::move(reply)),
      headers_(std::move(headers)) {}

void StreamedAnswer::Begin() {
  // A stream without events has its first one.
  stream_->Attach(std::move(reply_), std::move(headers_), 1).IgnoreError();
  stream_->Send(format_->Begin());
}

bool StreamedAnswer::Piece(int choice, const ChoiceText& piece) {
  return stream_->Send(format_->Piece(choice, piece));
}

void StreamedAnswer::ChoiceEnd(int choice, FinishReason reason) {
  stream_->Send(format_->ChoiceEnd(choice, reason));
}

void StreamedAnswer::End(const AnswerUsage& usage) {
  stream_->Send(format_->End(usage));
  stream_->End();
}

void StreamedAnswer::Fail(const absl::Status& status) {
  stream_->Send(format_->Error(status));
  stream_->End();
}

WholeAnswer::WholeAnswer(std::unique_ptr<AnswerFormat> format, int num_choices,
                         std::shared_ptr<HttpReply> reply, HttpHeaders headers,
                         const Clock& clock)
    : format_(std::move(format)),
      reply_(std::move(reply)),
      headers_(std::move(headers)),
      clock_(clock),
      choices_(num_choices),
      next_sign_(clock.Elapsed() + kPatience) {}

void WholeAnswer::Begin() {}

bool WholeAnswer::Piece(int choice, const ChoiceText& piece) {
  choices_[choice].text.Append(piece);
  return true;
}

void WholeAnswer::ChoiceEnd(int choice, FinishReason reason) {
  choices_[choice].finish_reason = reason;
}

void WholeAnswer::End(const AnswerUsage& usage) {
  Send(200, format_->Whole(choices_, usage));
}

void WholeAnswer::Fail(const absl::Status& status) {
  Send(ToOpenAiError(status).http_status, OpenAiErrorJson(status));
}

void WholeAnswer::Send(int status, std::string body) {
  MutexLock lock(mutex_);
  is_sent_ = true;
  if (has_begun_) {
    reply_->Write(std::move(body));
    reply_->End();
  } else {
    reply_->Send(status, headers_, std::move(body));
  }
}

bool WholeAnswer::OnPulse() {
  MutexLock lock(mutex_);
  if (is_sent_) return false;
  if (clock_.Elapsed() < next_sign_) return true;
  if (!std::exchange(has_begun_, true)) reply_->Begin(200, headers_);
  next_sign_ = clock_.Elapsed() + kKeepAlive;
  return reply_->Write("\n");
}

}  // namespace deltafin
