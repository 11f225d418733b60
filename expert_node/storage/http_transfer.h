// expert_node/storage/http_transfer.h
//
// A request of HttpRangeReader on its way: decides line by line what of the
// answer is taken, and hands it to the caller who waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/mutex.h"
#include "expert_node/storage/http_range_reader.h"

namespace deltafin {

class RangeTransfer final : public HttpTransfer {
 public:
  explicit RangeTransfer(TransferRequest request)
      : request_(std::move(request)) {}

  bool WaitUntil(absl::Time deadline) override {
    MutexLock lock(mutex_);
    while (!done_) {
      if (!done_changed_.WaitUntil(mutex_, deadline)) return done_;
    }
    return true;
  }
  uint64_t received() const override {
    return received_.load(std::memory_order_acquire);
  }
  const absl::StatusOr<HttpAnswer>& result() const override { return result_; }

  void RequestCancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

  // The rest is for the reader's thread alone.
  const TransferRequest& request() const { return request_; }
  // Both return false to end the transfer.
  bool TakeHeaderLine(std::string_view line);
  bool TakeBody(std::span<const uint8_t> bytes);
  // `status` is that of the connection.
  void FinishConnection(const absl::Status& status);
  void Finish(absl::StatusOr<HttpAnswer> result);

 private:
  bool stores_body() const {
    return !request_.wanted.out.empty() && answer_.status / 100 == 2;
  }
  bool StoreBody(std::span<const uint8_t> bytes);
  bool KeepText(std::span<const uint8_t> bytes);

  const TransferRequest request_;
  std::atomic<bool> cancelled_{false};
  std::atomic<uint64_t> received_{0};
  HttpAnswer answer_;
  absl::Status refused_;      // why the body is not taken
  bool text_is_cut_ = false;  // enough of an error's text has come
  Mutex mutex_;
  CondVar done_changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<HttpAnswer> result_;  // not changed once done
};

}  // namespace deltafin
