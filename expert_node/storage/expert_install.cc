#include "expert_node/storage/expert_install.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/thread_affinity.h"
#include "expert_node/storage/released_identity.h"

namespace deltafin {
namespace {

std::vector<ExpertKey> MissingExperts(const RecordStore& records) {
  const RecordModel& model = records.model();
  const SliceRun all{0, model.shape.num_slices()};
  std::vector<ExpertKey> missing;
  for (int layer = model.first_moe_layer; layer < model.num_layers; ++layer) {
    for (int expert = 0; expert < model.num_experts; ++expert) {
      const ExpertKey key{layer, expert};
      if (!records.Holds(key, all)) missing.push_back(key);
    }
  }
  return missing;
}

class ExpertInstaller {
 public:
  ExpertInstaller(ExpertStore& from, RecordStore& records,
                  const ExpertInstallOptions& options)
      : from_(from),
        records_(records),
        options_(options),
        shape_(records.shape()),
        missing_(MissingExperts(records)) {}

  absl::Status Run() {
    const size_t num_threads =
        std::min<size_t>(std::max(options_.parallel, 1), missing_.size());
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < num_threads; ++i) {
      threads.emplace_back([this] {
        SetThreadName("expert-fetch");
        FetchUntilDone();
      });
    }
    threads.clear();  // joins
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  void FetchUntilDone() {
    AlignedBuffer record;
    size_t ticket = 0;
    while (TakeTicket(ticket)) {
      std::string identity;
      absl::Status status = Fetch(missing_[ticket], record, identity);
      if (!WaitForTurn(ticket, status)) return;
      status = Keep(missing_[ticket], record, identity);
      EndTurn(status);
    }
  }

  bool TakeTicket(size_t& ticket) {
    const bool cancelled = options_.cancelled && options_.cancelled();
    MutexLock lock(mutex_);
    if (cancelled && status_.ok()) Fail(absl::CancelledError("cancelled"));
    if (!status_.ok() || next_ == missing_.size()) return false;
    ticket = next_++;
    return true;
  }

  absl::Status Fetch(ExpertKey key, AlignedBuffer& record,
                     std::string& identity) {
    if (record.size() == 0) {
      ASSIGN_OR_RETURN(record, AlignedBuffer::Allocate(shape_.stride_bytes()));
    }
    std::vector<uint8_t*> slices;
    for (int i = 0; i < shape_.num_slices(); ++i) {
      slices.push_back(record.data() + shape_.slice_offset(i));
    }
    RETURN_IF_ERROR(
        from_.Read(key, {0, shape_.num_slices()}, slices, [](int) {}).status());
    identity = IdentityOfRecord(shape_, record.bytes());
    return absl::OkStatus();
  }

  // False: there is no turn, because this or another fetch failed.
  bool WaitForTurn(size_t ticket, const absl::Status& status) {
    MutexLock lock(mutex_);
    if (!status.ok()) Fail(status);
    while (status_.ok() && turn_ != ticket) changed_.Wait(mutex_);
    return status_.ok();
  }

  absl::Status Keep(ExpertKey key, const AlignedBuffer& record,
                    const std::string& identity) {
    std::vector<const uint8_t*> slices;
    for (int i = 0; i < shape_.num_slices(); ++i) {
      slices.push_back(record.data() + shape_.slice_offset(i));
    }
    return AddContext(
        records_.Install(key, {0, shape_.num_slices()}, slices, identity),
        fmt::format("layer {} expert {}", key.layer, key.expert));
  }

  void EndTurn(const absl::Status& status) {
    MutexLock lock(mutex_);
    if (!status.ok()) Fail(status);
    ++turn_;
    changed_.NotifyAll();
    if (!options_.progress || !status.ok()) return;
    const RecordModel& model = records_.model();
    const uint64_t all =
        uint64_t(model.num_layers - model.first_moe_layer) * model.num_experts;
    const ExpertKey key = missing_[turn_ - 1];
    options_.progress(fmt::format("experts, layer {}: {} of {}", key.layer,
                                  key.expert + 1, model.num_experts),
                      (all - missing_.size() + turn_) * shape_.payload_bytes(),
                      all * shape_.payload_bytes());
  }

  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (status_.ok()) status_ = std::move(status);
    changed_.NotifyAll();
  }

  ExpertStore& from_;
  RecordStore& records_;
  const ExpertInstallOptions& options_;
  const ExpertShape shape_;
  const std::vector<ExpertKey> missing_;
  Mutex mutex_;
  CondVar changed_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t turn_ ABSL_GUARDED_BY(mutex_) = 0;  // whose expert is kept next
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status InstallMissingExperts(ExpertStore& from, RecordStore& records,
                                   const ExpertInstallOptions& options) {
  return ExpertInstaller(from, records, options).Run();
}

}  // namespace deltafin
