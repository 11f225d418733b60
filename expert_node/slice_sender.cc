#include "expert_node/slice_sender.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/aligned_buffer.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// How late a caller that waits for its turn notices that it was cancelled.
constexpr absl::Duration kAskCancelled = absl::Milliseconds(100);

}  // namespace

class SliceSender::Turn {
 public:
  explicit Turn(SliceSender& sender) : sender_(sender) {}
  ~Turn() { sender_.EndTurn(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  SliceSender& sender_;
};

SliceSender::SliceSender(const ModelSpec& spec, std::string manifest_digest,
                         ExpertStore& held)
    : shape_(spec.expert_shape()),
      first_layer_(spec.first_k_dense_replace),
      num_layers_(spec.num_hidden_layers),
      num_experts_(spec.num_experts),
      manifest_digest_(std::move(manifest_digest)),
      held_(held) {}

absl::Status SliceSender::CheckRequest(
    const v1::ReadSlicesRequest& request) const {
  if (request.manifest_digest() != manifest_digest_) {
    return absl::FailedPreconditionError(
        fmt::format("the model (manifest SHA-256) differs: the caller has "
                    "{:.64}, this side has {}",
                    request.manifest_digest(), manifest_digest_));
  }
  const uint32_t num_slices = shape_.num_slices();
  if (request.layer() >= static_cast<uint32_t>(first_layer_) &&
      request.layer() < static_cast<uint32_t>(num_layers_) &&
      request.expert() < static_cast<uint32_t>(num_experts_) &&
      request.num_slices() >= 1 && request.num_slices() <= num_slices &&
      request.first_slice() <= num_slices - request.num_slices()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "layer {} expert {} slices {}+{} are not of this model: layers {}..{}, "
      "{} experts, {} slices",
      request.layer(), request.expert(), request.first_slice(),
      request.num_slices(), first_layer_, num_layers_ - 1, num_experts_,
      num_slices));
}

absl::Status SliceSender::TakeTurn(absl::FunctionRef<bool()> cancelled) {
  MutexLock lock(mutex_);
  if (num_reading_ >= kMaxReading && num_waiting_ >= kMaxWaiting) {
    return absl::ResourceExhaustedError(
        fmt::format("{} callers wait for slices already: ask another owner, or "
                    "later",
                    num_waiting_));
  }
  ++num_waiting_;
  while (num_reading_ >= kMaxReading && !cancelled()) {
    turn_ended_.WaitUntil(mutex_, absl::Now() + kAskCancelled);
  }
  --num_waiting_;
  if (num_reading_ >= kMaxReading) return absl::CancelledError("cancelled");
  ++num_reading_;
  return absl::OkStatus();
}

void SliceSender::EndTurn() {
  MutexLock lock(mutex_);
  --num_reading_;
  turn_ended_.NotifyOne();
}

absl::Status SliceSender::Send(
    const v1::ReadSlicesRequest& request, absl::FunctionRef<bool()> cancelled,
    absl::FunctionRef<bool(const v1::SliceBytes&)> write) {
  RETURN_IF_ERROR(CheckRequest(request));
  RETURN_IF_ERROR(TakeTurn(cancelled));
  const Turn turn(*this);
  const ExpertKey key = {static_cast<int32_t>(request.layer()),
                         static_cast<int32_t>(request.expert())};
  const SliceRun run = {static_cast<int>(request.first_slice()),
                        static_cast<int>(request.num_slices())};
  const size_t begin = shape_.slice_offset(run.first);
  ASSIGN_OR_RETURN(AlignedBuffer buffer,
                   AlignedBuffer::Allocate(
                       shape_.slice_offset(run.first + run.count) - begin));
  std::vector<uint8_t*> slices;
  for (int i = 0; i < run.count; ++i) {
    slices.push_back(buffer.data() + shape_.slice_offset(run.first + i) -
                     begin);
  }
  RETURN_IF_ERROR(held_.Read(key, run, slices, [](int) {}).status());
  for (int i = 0; i < run.count; ++i) {
    const int slice = run.first + i;
    const size_t bytes =
        shape_.slice_offset(slice + 1) - shape_.slice_offset(slice);
    v1::SliceBytes message;
    message.set_slice(slice);
    message.set_data(slices[i], bytes);
    const Xxh128 digest = Xxh3Digest({slices[i], bytes});
    message.set_xxh3_low(digest.low);
    message.set_xxh3_high(digest.high);
    if (cancelled() || !write(message)) {
      return absl::CancelledError("the caller is gone");
    }
    bytes_sent_ += bytes;
  }
  return absl::OkStatus();
}

}  // namespace deltafin
