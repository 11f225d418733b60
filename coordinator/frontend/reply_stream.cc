#include "coordinator/frontend/reply_stream.h"

#include <utility>

#include "spdlog/fmt/fmt.h"

namespace deltafin {

// One reply may always wait, however large.
bool ReplyStream::IsFull(size_t more_bytes) const {
  return !waiting_.empty() && waiting_bytes_ + more_bytes > max_bytes_;
}

bool ReplyStream::Add(v1::GenerateReply reply) {
  const size_t bytes = reply.ByteSizeLong();
  const v1::GenerateReply* first = nullptr;
  {
    MutexLock lock(mutex_);
    if (broken_.ok() && IsFull(bytes)) {
      broken_ = absl::ResourceExhaustedError(fmt::format(
          "the client left more than {} bytes of replies unread", max_bytes_));
    }
    if (!broken_.ok()) return false;
    waiting_bytes_ += bytes;
    waiting_.push_back(std::move(reply));
    if (waiting_.size() == 1) first = &waiting_.front();
  }
  if (first != nullptr) transport_.Write(*first);
  return true;
}

void ReplyStream::Finish(const absl::Status& status) {
  absl::Status end;
  {
    MutexLock lock(mutex_);
    end_ = broken_.ok() ? status : broken_;
    if (!waiting_.empty()) return;
    end = *end_;
  }
  transport_.End(end);
}

void ReplyStream::WriteDone(bool ok) {
  const v1::GenerateReply* next = nullptr;
  absl::Status end;
  {
    MutexLock lock(mutex_);
    waiting_bytes_ -= waiting_.front().ByteSizeLong();
    waiting_.pop_front();
    if (!ok) {
      broken_ = absl::CancelledError("the client is gone");
      waiting_.clear();
      waiting_bytes_ = 0;
    }
    if (!waiting_.empty()) {
      next = &waiting_.front();
    } else if (!end_) {
      return;
    } else {
      end = ok ? *end_ : broken_;
    }
  }
  if (next != nullptr) {
    transport_.Write(*next);
  } else {
    transport_.End(end);
  }
}

}  // namespace deltafin
