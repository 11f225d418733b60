#include "expert_node/storage/ledger_keeper.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace deltafin {

LedgerKeeper::LedgerKeeper(const LedgerOptions& options, TieredStore& tier,
                           RecordStore* records)
    : rates_(options.rates), tier_(tier), records_(records) {
  if (options.folder.empty()) return;
  absl::StatusOr<std::unique_ptr<ExpertIndex>> index =
      ExpertIndex::Open(options.folder, options.manifest_digest);
  if (!index.ok()) {
    spdlog::warn(
        "no ledger in {}, so that nothing is learned from one start "
        "to the next: {}",
        options.folder, index.status().ToString());
    return;
  }
  index_ = *std::move(index);
  const LedgerContents& found = index_->found();
  if (records_ != nullptr && found.quota_bytes) {
    records_->SetQuota(*found.quota_bytes);
  }
  tier_.WarmUp(found.heat);
  thread_ = std::make_unique<PeriodicThread>("ledger", options.interval,
                                             [this] { Write(); });
}

LedgerKeeper::~LedgerKeeper() {
  thread_.reset();
  if (index_ != nullptr) Write();
}

absl::Status LedgerKeeper::WriteNew() {
  if (rates_) RETURN_IF_ERROR(index_->SetRates(rates_()));
  RETURN_IF_ERROR(index_->AddHeat(tier_.TakeUses()));
  return records_ == nullptr ? absl::OkStatus() : index_->CopyHeld(*records_);
}

LedgerRates LedgerKeeper::found_rates() const {
  return index_ == nullptr ? LedgerRates() : index_->found().rates;
}

void LedgerKeeper::Write() {
  const absl::Status status = WriteNew();
  MutexLock lock(mutex_);
  if (std::exchange(writes_well_, status.ok()) == status.ok()) return;
  if (status.ok()) {
    spdlog::info("the ledger is written again");
  } else {
    spdlog::warn("the ledger cannot be written: {}", status.ToString());
  }
}

absl::Status LedgerKeeper::KeepQuota(std::optional<uint64_t> quota_bytes) {
  if (index_ == nullptr) {
    return absl::UnavailableError(
        "there is no ledger that could keep the quota over a restart");
  }
  return index_->SetQuota(quota_bytes);
}

}  // namespace deltafin
