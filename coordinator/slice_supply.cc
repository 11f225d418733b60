#include "coordinator/slice_supply.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/model_directory.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "coordinator/own_node.h"
#include "expert_node/slice_sender.h"
#include "expert_node/slice_service.h"
#include "expert_node/storage/installed_experts.h"
#include "expert_node/storage/local_store.h"
#include "expert_node/storage/staged_source.h"

namespace deltafin {
namespace {

// Opened when first read.
class SuppliedExperts : public ExpertStore {
 public:
  SuppliedExperts(SliceSupplyOptions options, OwnNode* own)
      : options_(std::move(options)),
        shape_(options_.spec.expert_shape()),
        own_(own) {}

  const ExpertShape& shape() const override { return shape_; }

  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override {
    RETURN_IF_ERROR(Open());
    if (held_ != nullptr) {
      absl::StatusOr<uint64_t> bytes = held_->Read(key, run, out, ready);
      if (bytes.ok() || source_ == nullptr) return bytes;
    }
    return source_->Read(key, run, out, ready);
  }

 private:
  absl::Status Open() {
    MutexLock lock(mutex_);
    if (is_open_) return absl::OkStatus();
    ASSIGN_OR_RETURN(const ModelLayout layout,
                     LayoutOfModel(options_.model_dir));
    RETURN_IF_ERROR(OpenHeld(layout));
    if (layout == ModelLayout::kInstalled) {
      source_ = std::make_unique<StagedSource>(
          std::make_unique<SourceStore>(
              options_.spec,
              OpenerOfInstalled(options_.model_dir, options_.hub)),
          options_.staging_bytes, StagedSource::Given::kKept);
    }
    is_open_ = true;
    return absl::OkStatus();
  }

  absl::Status OpenHeld(ModelLayout layout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (own_ != nullptr) {
      held_ = &own_->held();
      return absl::OkStatus();
    }
    if (layout == ModelLayout::kReleased) {
      ASSIGN_OR_RETURN(opened_,
                       LocalStore::Open(options_.model_dir, options_.spec));
      held_ = opened_.get();
      return absl::OkStatus();
    }
    auto installed =
        InstalledExperts::Open(options_.model_dir, options_.spec,
                               options_.manifest_digest, options_.hub);
    if (!installed.ok()) {
      if (!absl::IsUnavailable(installed.status())) return installed.status();
      spdlog::warn("{}; experts are given from where it was installed",
                   installed.status().ToString());
      return absl::OkStatus();
    }
    opened_ = *std::move(installed);
    held_ = &opened_->held();
    return absl::OkStatus();
  }

  const SliceSupplyOptions options_;
  const ExpertShape shape_;
  OwnNode* const own_;
  Mutex mutex_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
  // Written once, before is_open_.
  std::unique_ptr<ExpertStore> opened_;
  ExpertStore* held_ = nullptr;           // null: another process has them
  std::unique_ptr<StagedSource> source_;  // null: all is here
};

}  // namespace

struct SliceSupply::Parts {
  Parts(SliceSupplyOptions options, OwnNode* own)
      : experts(options, own),
        sender(options.spec, options.manifest_digest, experts),
        service(sender) {}

  SuppliedExperts experts;
  SliceSender sender;
  SliceService service;
};

SliceSupply::SliceSupply(SliceSupplyOptions options, OwnNode* own)
    : parts_(std::make_unique<Parts>(std::move(options), own)) {}

SliceSupply::~SliceSupply() = default;

grpc::Service& SliceSupply::service() { return parts_->service; }

uint64_t SliceSupply::bytes_sent() const { return parts_->sender.bytes_sent(); }

}  // namespace deltafin
