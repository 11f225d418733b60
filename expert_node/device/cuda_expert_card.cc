#include "expert_node/device/cuda_expert_card.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_copies.h"
#include "kernels/cuda/cuda_experts.h"

namespace deltafin {
namespace {

// Tokens of one call: the activations between gate and down take some 70 MB of
// the card's memory with it.
constexpr int kRunRows = 128;
// Tables and routes on their way to the card: a few of the largest calls of the
// full model, hundreds of small ones.
constexpr size_t kUploadBytes = size_t{4} << 20;

static_assert(sizeof(CardRoute) == sizeof(CudaExpertRoute));

absl::Status Unavailable(const std::string& why) {
  return absl::UnavailableError(why);
}

constexpr size_t Aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

class CudaExpertCard : public ExpertCard {
 public:
  explicit CudaExpertCard(const CudaCard& card, const CardLimits& limits)
      : index_(card.index),
        name_(fmt::format("CUDA card {} ({})", card.index, card.name)),
        limits_(limits),
        max_slices_(std::min(limits.num_layer_slices, kMaxSingleSlices)),
        stage_bytes_(Aligned(limits.shape.slice_offset(1))) {}

  absl::Status TakeMemory();

  const std::string& name() const override { return name_; }
  int max_slices() const override { return max_slices_; }
  int max_run_rows() const override {
    return std::min(kRunRows, limits_.max_rows);
  }
  absl::StatusOr<uint64_t> FreeBytes() const override;
  absl::StatusOr<uint8_t*> Allocate(size_t bytes) override;
  uint8_t* stage(int index) override {
    return stages_->data() + index * stage_bytes_;
  }
  absl::Status CopyIn(int stage, const uint8_t* from, uint8_t* to,
                      size_t bytes) override;
  absl::Status WaitForStage(int stage) override;
  absl::Status Begin(std::span<const float* const> rows) override;
  absl::Status Run(const CardRun& run) override;
  absl::Status Wait() override;
  absl::StatusOr<KernelStatus> Finish() override;
  const int64_t* sums() const override {
    return reinterpret_cast<const int64_t*>(host_sums_->data());
  }

 private:
  // Where a run's table and routes lie, here and on the card.
  size_t RoutesOffset(const CardRun& run) const {
    return Aligned(run.slices.size() * sizeof(CudaExpertRecord));
  }
  size_t UploadBytes(const CardRun& run) const {
    return RoutesOffset(run) +
           Aligned(run.routes.size() * sizeof(CudaExpertRoute));
  }
  absl::Status Pin(size_t bytes, std::unique_ptr<CudaPinnedMemory>* memory);
  absl::Status Take(size_t bytes, std::unique_ptr<CudaMemory>* memory);
  void WriteUpload(const CardRun& run, uint8_t* to) const;

  const int index_;
  const std::string name_;
  const CardLimits limits_;
  const int max_slices_;
  const size_t stage_bytes_;
  std::unique_ptr<CudaExperts> experts_;
  std::unique_ptr<CudaCopies> copies_;
  std::unique_ptr<CudaPinnedMemory> stages_, host_rows_, host_sums_,
      host_upload_;
  std::unique_ptr<CudaMemory> rows_, sums_, upload_;
  std::vector<std::unique_ptr<CudaMemory>> slices_;
  int num_rows_ = 0;     // of the request
  size_t uploaded_ = 0;  // since nothing was under way
};

absl::Status CudaExpertCard::Pin(size_t bytes,
                                 std::unique_ptr<CudaPinnedMemory>* memory) {
  std::string why;
  *memory = CudaPinnedMemory::Allocate(index_, bytes, &why);
  return *memory == nullptr ? Unavailable(why) : absl::OkStatus();
}

absl::Status CudaExpertCard::Take(size_t bytes,
                                  std::unique_ptr<CudaMemory>* memory) {
  std::string why;
  *memory = CudaMemory::Allocate(index_, bytes, &why);
  return *memory == nullptr ? Unavailable(why) : absl::OkStatus();
}

absl::Status CudaExpertCard::TakeMemory() {
  const size_t rows = limits_.max_rows;
  const size_t latent = limits_.shape.latent_size;
  CardRun largest;
  const std::vector<CardSlice> slices(max_slices_);
  const std::vector<CardRoute> routes(max_run_rows() * limits_.max_routes);
  largest.slices = slices;
  largest.routes = routes;
  const size_t upload = std::max(kUploadBytes, UploadBytes(largest));
  CudaExpertLimits calls;
  calls.shape = limits_.shape;
  calls.situ = limits_.situ;
  calls.num_experts = max_slices_;
  calls.top_k = limits_.max_routes;
  calls.max_tokens = max_run_rows();
  calls.single_slices = true;
  std::string why;
  experts_ = CudaExperts::Create(index_, calls, &why);
  if (experts_ == nullptr) return Unavailable(why);
  copies_ = CudaCopies::Create(index_, limits_.num_stages, &why);
  if (copies_ == nullptr) return Unavailable(why);
  RETURN_IF_ERROR(Pin(limits_.num_stages * stage_bytes_, &stages_));
  RETURN_IF_ERROR(Pin(rows * latent * sizeof(float), &host_rows_));
  RETURN_IF_ERROR(Pin(rows * latent * sizeof(int64_t), &host_sums_));
  RETURN_IF_ERROR(Pin(upload, &host_upload_));
  RETURN_IF_ERROR(Take(rows * latent * sizeof(float), &rows_));
  RETURN_IF_ERROR(Take(rows * latent * sizeof(int64_t), &sums_));
  return Take(upload, &upload_);
}

absl::StatusOr<uint64_t> CudaExpertCard::FreeBytes() const {
  size_t bytes = 0;
  std::string why;
  if (!FindFreeCudaMemory(index_, &bytes, &why)) return Unavailable(why);
  return bytes;
}

absl::StatusOr<uint8_t*> CudaExpertCard::Allocate(size_t bytes) {
  std::string why;
  auto memory = CudaMemory::Allocate(index_, bytes, &why);
  if (memory == nullptr) return absl::ResourceExhaustedError(why);
  slices_.push_back(std::move(memory));
  return slices_.back()->data();
}

absl::Status CudaExpertCard::CopyIn(int stage, const uint8_t* from, uint8_t* to,
                                    size_t bytes) {
  std::string why;
  return copies_->Start(stage, to, from, bytes, &why) ? absl::OkStatus()
                                                      : Unavailable(why);
}

absl::Status CudaExpertCard::WaitForStage(int stage) {
  std::string why;
  return copies_->WaitFor(stage, &why) ? absl::OkStatus() : Unavailable(why);
}

absl::Status CudaExpertCard::Begin(std::span<const float* const> rows) {
  const size_t latent = limits_.shape.latent_size;
  float* out = reinterpret_cast<float*>(host_rows_->data());
  for (const float* row : rows) out = std::copy_n(row, latent, out);
  num_rows_ = static_cast<int>(rows.size());
  uploaded_ = 0;
  std::string why;
  return experts_->CopyIn(rows_->data(), host_rows_->data(),
                          rows.size() * latent * sizeof(float), &why) &&
                 experts_->Clear(sums_->data(),
                                 rows.size() * latent * sizeof(int64_t), &why)
             ? absl::OkStatus()
             : Unavailable(why);
}

void CudaExpertCard::WriteUpload(const CardRun& run, uint8_t* to) const {
  auto* record = reinterpret_cast<CudaExpertRecord*>(to);
  for (const CardSlice& slice : run.slices) {
    *record++ = {slice.bytes, {slice.slice, 1}};
  }
  auto* route = reinterpret_cast<CudaExpertRoute*>(to + RoutesOffset(run));
  for (const CardRoute& from : run.routes) {
    *route++ = {from.slice, from.weight};
  }
}

absl::Status CudaExpertCard::Run(const CardRun& run) {
  const size_t bytes = UploadBytes(run);
  if (uploaded_ + bytes > upload_->size()) RETURN_IF_ERROR(Wait());
  WriteUpload(run, host_upload_->data() + uploaded_);
  uint8_t* const upload = upload_->data() + uploaded_;
  const size_t first = run.first_row * size_t(limits_.shape.latent_size);
  CudaExpertCall call;
  call.x = reinterpret_cast<const float*>(rows_->data()) + first;
  call.routes =
      reinterpret_cast<const CudaExpertRoute*>(upload + RoutesOffset(run));
  call.num_tokens = run.num_rows;
  call.sums = reinterpret_cast<int64_t*>(sums_->data()) + first;
  call.adds = true;
  call.records = reinterpret_cast<const CudaExpertRecord*>(upload);
  call.num_records = static_cast<int>(run.slices.size());
  call.top_k = run.routes_of_row;
  call.alone = SoonerAlone(
      run.num_rows, run.routes_of_row,
      std::ranges::count_if(run.routes,
                            [](const CardRoute& r) { return r.slice >= 0; }),
      std::ssize(run.slices));
  std::string why;
  if (!experts_->CopyIn(upload, host_upload_->data() + uploaded_, bytes,
                        &why) ||
      !copies_->HoldBack(experts_->stream(), &why) ||
      !experts_->Enqueue(call, &why)) {
    return Unavailable(why);
  }
  uploaded_ += bytes;
  return absl::OkStatus();
}

absl::Status CudaExpertCard::Wait() {
  std::string why;
  if (!copies_->Wait(&why) || !experts_->Wait(&why)) return Unavailable(why);
  uploaded_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<KernelStatus> CudaExpertCard::Finish() {
  const size_t bytes = num_rows_ * sizeof(int64_t) * limits_.shape.latent_size;
  CudaExpertResult result;
  std::string why;
  if (!experts_->CopyOut(host_sums_->data(), sums_->data(), bytes, &why) ||
      !copies_->Wait(&why) || !experts_->Finish(&result, &why)) {
    return Unavailable(why);
  }
  return result.status;
}

}  // namespace

HostPinner CudaHostPinner(int card) {
  return {[card](std::span<uint8_t> part) {
            std::string why;
            return PinCudaHostMemory(card, part.data(), part.size(), &why)
                       ? absl::OkStatus()
                       : Unavailable(why);
          },
          [](std::span<uint8_t> part) { UnpinCudaHostMemory(part.data()); }};
}

absl::StatusOr<std::unique_ptr<ExpertCard>> OpenCudaExpertCard(
    int index, const CardLimits& limits) {
  std::string why;
  const std::vector<CudaCard> cards = FindCudaCards(&why);
  const auto found =
      std::find_if(cards.begin(), cards.end(),
                   [&](const CudaCard& card) { return card.index == index; });
  if (found == cards.end()) {
    if (cards.empty()) return Unavailable(why);
    return Unavailable(fmt::format("CUDA card {}: there is none", index));
  }
  auto card = std::make_unique<CudaExpertCard>(*found, limits);
  RETURN_IF_ERROR(card->TakeMemory());
  return card;
}

}  // namespace deltafin
