#include "expert_node/slice_sender.h"

#include <optional>
#include <utility>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"

namespace deltafin {
SliceSender::SliceSender(const ModelSpec& spec, std::string manifest_digest,
                         ExpertStore& held, int copies_at_once)
    : shape_(spec.expert_shape()),
      first_layer_(spec.first_k_dense_replace),
      num_layers_(spec.num_hidden_layers),
      num_experts_(spec.num_experts),
      manifest_digest_(std::move(manifest_digest)),
      held_(held),
      reads_of_copies_(copies_at_once, kMaxReading) {}

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

absl::Status SliceSender::Read(const v1::ReadSlicesRequest& request,
                               std::span<uint8_t* const> slices,
                               absl::FunctionRef<bool()> cancelled) {
  const ExpertKey key = {static_cast<int32_t>(request.layer()),
                         static_cast<int32_t>(request.expert())};
  const SliceRun run = {static_cast<int>(request.first_slice()),
                        static_cast<int>(request.num_slices())};
  std::optional<SliceQueue::Turn> turn;
  if (request.is_copy()) {
    const size_t bytes = shape_.slice_offset(run.first + run.count) -
                         shape_.slice_offset(run.first);
    ASSIGN_OR_RETURN(SliceQueue::Turn taken,
                     reads_of_copies_.Wait(
                         {bytes, request.copy_bytes_per_second()}, cancelled));
    turn.emplace(std::move(taken));
  }
  return held_.Read(key, run, slices, [](int) {}).status();
}

absl::Status SliceSender::Send(
    const v1::ReadSlicesRequest& request, absl::FunctionRef<bool()> cancelled,
    absl::FunctionRef<bool(const v1::SliceBytes&)> write) {
  RETURN_IF_ERROR(CheckRequest(request));
  SliceQueue& callers = request.is_copy() ? copies_ : layers_;
  ASSIGN_OR_RETURN(const SliceQueue::Turn turn, callers.Wait({}, cancelled));
  const int first = static_cast<int>(request.first_slice());
  const int count = static_cast<int>(request.num_slices());
  const size_t begin = shape_.slice_offset(first);
  ASSIGN_OR_RETURN(
      AlignedBuffer buffer,
      AlignedBuffer::Allocate(shape_.slice_offset(first + count) - begin));
  std::vector<uint8_t*> slices;
  for (int i = 0; i < count; ++i) {
    slices.push_back(buffer.data() + shape_.slice_offset(first + i) - begin);
  }
  RETURN_IF_ERROR(Read(request, slices, cancelled));
  for (int i = 0; i < count; ++i) {
    const int slice = first + i;
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
