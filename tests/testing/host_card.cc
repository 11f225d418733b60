#include "tests/testing/host_card.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "kernels/kernel_registry.h"

namespace deltafin::testing {
namespace {

// Few, so that a layer takes several runs.
constexpr int kRunRows = 4;
constexpr int kRunSlices = 5;

struct Copy {
  int stage;
  const uint8_t* from;
  uint8_t* to;
  size_t bytes;
};

struct StartedRun {
  std::vector<CardSlice> slices;
  int first_row;
  int num_rows;
  int routes_of_row;
  std::vector<CardRoute> routes;
};

class HostCard : public ExpertCard {
 public:
  HostCard(std::string name, const CardLimits& limits, HostCardOrders& orders)
      : name_(std::move(name)),
        limits_(limits),
        orders_(orders),
        kernel_(FindKernel("reference", nullptr)->expert),
        stages_(limits.num_stages),
        scratch_(Take(kernel_.scratch_bytes(limits.shape, 1))),
        prepared_(Take(kernel_.prepared_bytes(limits.shape.latent_size, 1))) {
    for (AlignedBuffer& stage : stages_) {
      stage = Take(limits.shape.slice_offset(1));
    }
  }

  const std::string& name() const override { return name_; }
  int max_slices() const override { return kRunSlices; }
  int max_run_rows() const override { return kRunRows; }
  absl::StatusOr<uint64_t> FreeBytes() const override {
    return orders_.memory_bytes - taken_;
  }
  uint8_t* stage(int index) override { return stages_[index].data(); }
  const int64_t* sums() const override { return sums_.data(); }

  absl::StatusOr<uint8_t*> Allocate(size_t bytes) override;
  absl::Status CopyIn(int stage, const uint8_t* from, uint8_t* to,
                      size_t bytes) override;
  absl::Status WaitForStage(int stage) override;
  absl::Status Begin(std::span<const float* const> rows) override;
  absl::Status Run(const CardRun& run) override;
  absl::Status Wait() override;
  absl::StatusOr<KernelStatus> Finish() override;

 private:
  static AlignedBuffer Take(size_t bytes) {
    absl::StatusOr<AlignedBuffer> buffer = AlignedBuffer::Allocate(bytes);
    CHECK_OK(buffer.status());
    return *std::move(buffer);
  }
  // Counts a call.
  absl::Status Call() {
    if (orders_.num_calls++ < orders_.fail_from) return absl::OkStatus();
    return absl::UnavailableError(name_ + ": failed on order");
  }
  void CheckPinned(const Copy& copy) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DoCopies(size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DoAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DoRun(const StartedRun& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DoRow(const StartedRun& run, int row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const CardLimits limits_;
  HostCardOrders& orders_;
  const ExpertKernel& kernel_;
  std::vector<AlignedBuffer> stages_, memory_;
  AlignedBuffer scratch_, prepared_;
  std::atomic<uint64_t> taken_{0};
  Mutex mutex_;
  std::deque<Copy> copies_ ABSL_GUARDED_BY(mutex_);
  std::deque<StartedRun> runs_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> rows_;
  std::vector<int64_t> sums_;
  KernelStatus status_ = KernelStatus::kOk;
};

absl::StatusOr<uint8_t*> HostCard::Allocate(size_t bytes) {
  if (taken_ + bytes >
      std::min(orders_.memory_bytes, orders_.allocatable_bytes)) {
    return absl::ResourceExhaustedError(name_ + ": out of memory");
  }
  taken_ += bytes;
  memory_.push_back(Take(bytes));
  return memory_.back().data();
}

absl::Status HostCard::CopyIn(int stage, const uint8_t* from, uint8_t* to,
                              size_t bytes) {
  if (absl::Status status = Call(); !status.ok()) return status;
  ++orders_.num_copies;
  MutexLock lock(mutex_);
  copies_.push_back({stage, from, to, bytes});
  if (from != stages_[stage].data()) ++orders_.num_direct_copies;
  CheckPinned(copies_.back());
  return absl::OkStatus();
}

void HostCard::CheckPinned(const Copy& copy) const {
  if (copy.from == stages_[copy.stage].data()) return;
  CHECK(orders_.pinned != nullptr &&
            orders_.pinned->Covers(copy.from, copy.bytes),
        "a copy from memory that is not pinned");
}

absl::Status HostCard::WaitForStage(int stage) {
  if (absl::Status status = Call(); !status.ok()) return status;
  MutexLock lock(mutex_);
  const auto last =
      std::find_if(copies_.rbegin(), copies_.rend(),
                   [stage](const Copy& copy) { return copy.stage == stage; });
  DoCopies(copies_.rend() - last);
  return absl::OkStatus();
}

absl::Status HostCard::Begin(std::span<const float* const> rows) {
  if (absl::Status status = Call(); !status.ok()) return status;
  CHECK(rows.size() <= static_cast<size_t>(limits_.max_rows));
  const size_t latent = limits_.shape.latent_size;
  rows_.clear();
  for (const float* row : rows) rows_.insert(rows_.end(), row, row + latent);
  sums_.assign(rows.size() * latent, 0);
  return absl::OkStatus();
}

absl::Status HostCard::Run(const CardRun& run) {
  if (absl::Status status = Call(); !status.ok()) return status;
  CHECK(run.slices.size() <= kRunSlices && run.num_rows <= kRunRows);
  CHECK(run.routes_of_row <= limits_.max_routes);
  ++orders_.num_runs;
  MutexLock lock(mutex_);
  runs_.push_back({{run.slices.begin(), run.slices.end()},
                   run.first_row,
                   run.num_rows,
                   run.routes_of_row,
                   {run.routes.begin(), run.routes.end()}});
  return absl::OkStatus();
}

absl::Status HostCard::Wait() {
  if (absl::Status status = Call(); !status.ok()) return status;
  MutexLock lock(mutex_);
  DoAll();
  return absl::OkStatus();
}

absl::StatusOr<KernelStatus> HostCard::Finish() {
  if (absl::Status status = Call(); !status.ok()) return status;
  MutexLock lock(mutex_);
  DoAll();
  return std::exchange(status_, KernelStatus::kOk);
}

void HostCard::DoCopies(size_t count) {
  for (; count > 0; --count) {
    const Copy copy = copies_.front();
    copies_.pop_front();
    CheckPinned(copy);
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

void HostCard::DoAll() {
  DoCopies(copies_.size());
  for (const StartedRun& run : runs_) DoRun(run);
  runs_.clear();
}

void HostCard::DoRun(const StartedRun& run) {
  for (int row = 0; row < run.num_rows; ++row) DoRow(run, row);
}

void HostCard::DoRow(const StartedRun& run, int row) {
  const size_t latent = limits_.shape.latent_size;
  const float* const x = rows_.data() + (run.first_row + row) * latent;
  int64_t* const sums = sums_.data() + (run.first_row + row) * latent;
  status_ = Worse(status_, kernel_.prepare(&x, static_cast<int>(latent), 1,
                                           prepared_.data(), nullptr));
  for (int i = 0; i < run.routes_of_row; ++i) {
    const CardRoute& route = run.routes[row * run.routes_of_row + i];
    if (route.slice < 0 || status_ != KernelStatus::kOk) continue;
    ExpertSliceArgs args;
    args.shape = limits_.shape;
    args.situ = limits_.situ;
    args.slices = run.slices[route.slice].bytes;
    args.run = {run.slices[route.slice].slice, 1};
    args.num_tokens = 1;
    args.prepared = prepared_.data();
    args.weights = &route.weight;
    args.sums = &sums;
    args.scratch = scratch_.data();
    status_ = Worse(status_, kernel_.run_slices(args, nullptr));
  }
}

}  // namespace

HostPinner PinnedParts::pinner(int refused_from) {
  return {[this, refused_from](std::span<uint8_t> part) -> absl::Status {
            if (num_pins_++ >= refused_from) {
              return absl::UnavailableError("pinning was refused on order");
            }
            MutexLock lock(mutex_);
            CHECK(parts_.emplace(part.data(), part.size()).second);
            return absl::OkStatus();
          },
          [this](std::span<uint8_t> part) {
            MutexLock lock(mutex_);
            CHECK(parts_.erase(part.data()) == 1);
          }};
}

bool PinnedParts::Covers(const uint8_t* bytes, size_t size) const {
  MutexLock lock(mutex_);
  auto after = parts_.upper_bound(bytes);
  if (after == parts_.begin()) return false;
  const auto& [begin, part_size] = *--after;
  return bytes + size <= begin + part_size;
}

size_t PinnedParts::num_parts() const {
  MutexLock lock(mutex_);
  return parts_.size();
}

std::unique_ptr<ExpertCard> MakeHostCard(std::string name,
                                         const CardLimits& limits,
                                         HostCardOrders& orders) {
  return std::make_unique<HostCard>(std::move(name), limits, orders);
}

}  // namespace deltafin::testing
