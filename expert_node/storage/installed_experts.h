// expert_node/storage/installed_experts.h
//
// The experts of an installed model: what its folder holds, and the rest from
// where it was installed, kept as it comes. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/model_spec.h"
#include "expert_node/storage/expert_store.h"
#include "expert_node/storage/fetching_store.h"
#include "expert_node/storage/hub_environment.h"
#include "expert_node/storage/read_rate_meter.h"
#include "expert_node/storage/record_store.h"
#include "expert_node/storage/source_store.h"

namespace deltafin {

class InstalledExperts : public ExpertStore {
 public:
  // Nothing but the folder is touched until an expert is missing. Errors:
  // those of RecordStore::Open; NOT_FOUND for a folder whose installation did
  // not get as far as the experts. `meter` is told of every read of the folder;
  // it must outlive the object and may be null.
  static absl::StatusOr<std::unique_ptr<InstalledExperts>> Open(
      const std::string& model_dir, const ModelSpec& spec,
      const std::string& manifest_digest, const HubAccess& access,
      ReadRateMeter* meter = nullptr);
  ~InstalledExperts() override;

  const ExpertShape& shape() const override { return records_->shape(); }
  bool IsNear(ExpertKey key, SliceRun run) const override {
    return records_->Holds(key, run);
  }
  ExpertStore& held() override { return *records_; }
  uint64_t HeldMask(ExpertKey key) const override {
    return records_->HeldMask(key);
  }
  uint64_t held_version() const override { return records_->held_version(); }
  int slices_per_read() const override { return records_->slices_per_read(); }
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override {
    return experts_->Read(key, run, out, ready);
  }

  // What the folder holds, and the same over where the rest comes from. Both
  // live as long as this.
  RecordStore& records() { return *records_; }
  FetchingStore& fetching() { return *experts_; }

  // Where what is missing comes from, for messages, and how fast.
  const std::string& source_name() const { return source_name_; }
  double source_rate() const { return source_meter_.report().bytes_per_second; }

 private:
  InstalledExperts(std::string source_name,
                   std::unique_ptr<RecordStore> records,
                   std::unique_ptr<ExpertStore> source);

  const std::string source_name_;
  ReadRateMeter source_meter_;
  const std::unique_ptr<RecordStore> records_;
  std::unique_ptr<FetchingStore> experts_;  // over records_
};

// Reaches the source that DIR/source names and the headers of its shards.
// Errors of the call: after "SOURCE cannot supply it".
ExpertSourceOpener OpenerOfInstalled(const std::string& model_dir,
                                     const HubAccess& access);

}  // namespace deltafin
