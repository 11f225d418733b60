#include "expert_node/storage/http_transfer.h"

#include <algorithm>
#include <cstring>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t kMaxErrorText = 4096;

}  // namespace

bool RangeTransfer::TakeHeaderLine(std::string_view line) {
  if (line != "\r\n" && line != "\n") {
    answer_.AddHeaderLine(line);
    return true;
  }
  if (stores_body()) refused_ = CheckRangeAnswer(request_.wanted, answer_);
  return refused_.ok();
}

bool RangeTransfer::TakeBody(std::span<const uint8_t> bytes) {
  return stores_body() ? StoreBody(bytes) : KeepText(bytes);
}

bool RangeTransfer::StoreBody(std::span<const uint8_t> bytes) {
  const uint64_t at = received();
  if (bytes.size() > request_.wanted.out.size() - at) {
    refused_ = absl::DataLossError(
        fmt::format("more than the wanted {} bytes from offset {} came",
                    request_.wanted.out.size(), request_.wanted.offset));
    received_ = 0;
    return false;
  }
  std::memcpy(request_.wanted.out.data() + at, bytes.data(), bytes.size());
  received_.store(at + bytes.size(), std::memory_order_release);
  return true;
}

bool RangeTransfer::KeepText(std::span<const uint8_t> bytes) {
  const bool success = answer_.status / 100 == 2;
  const size_t bound = success ? request_.max_text_bytes : kMaxErrorText;
  const size_t kept = std::min(bytes.size(), bound - answer_.text.size());
  answer_.text.append(reinterpret_cast<const char*>(bytes.data()), kept);
  if (kept == bytes.size()) return true;
  if (success) {
    refused_ = absl::DataLossError(
        fmt::format("an answer of more than {} bytes", bound));
  }
  text_is_cut_ = true;
  return false;
}

void RangeTransfer::FinishConnection(const absl::Status& status) {
  const size_t wanted = request_.wanted.out.size();
  if (!refused_.ok()) {
    Finish(refused_);
  } else if (!status.ok() && !text_is_cut_) {
    Finish(status);
  } else if (stores_body() && received() != wanted) {
    Finish(absl::UnavailableError(fmt::format(
        "the answer ended after {} of {} bytes", received(), wanted)));
  } else {
    Finish(std::move(answer_));
  }
}

void RangeTransfer::Finish(absl::StatusOr<HttpAnswer> result) {
  {
    MutexLock lock(mutex_);
    result_ = std::move(result);
    done_ = true;
    done_changed_.NotifyAll();
  }
  if (request_.on_done) request_.on_done();
}

}  // namespace deltafin
