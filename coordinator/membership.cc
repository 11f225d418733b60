#include "coordinator/membership.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "coordinator/cluster/drain_file.h"
#include "coordinator/cluster/slice_owners.h"
#include "coordinator/engine/expert_client.h"

namespace deltafin {
namespace {

// Silence is noticed this part of a heartbeat late at most.
constexpr int64_t kTicksPerHeartbeat = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<Membership>> Membership::Create(
    const MembershipOptions& options) {
  std::unique_ptr<Membership> self(new Membership());
  ASSIGN_OR_RETURN(EpochFile epochs,
                   EpochFile::Open(options.state_dir, SystemClock().Now()));
  const auto connect =
      [credentials = options.credentials,
       bound = options.keepalive_bound](const std::string& address) {
        return MakeExpertChannel(address, credentials, bound);
      };
  ASSIGN_OR_RETURN(DrainFile drained, DrainFile::Open(options.state_dir));
  RegistryOptions registry = options.registry;
  registry.drained = drained.ids();
  registry.keep_drained =
      [file = std::move(drained)](const std::set<std::string>& ids) mutable {
        const absl::Status status = file.Save(ids);
        if (status.ok()) return;
        spdlog::error("a restart will forget who is drained: {}",
                      status.ToString());
      };
  registry.loopback_only = options.credentials.is_plaintext();
  self->registry_ = std::make_unique<NodeRegistry>(
      std::move(registry), std::move(epochs), connect, SystemClock());
  for (const std::string& address : options.nodes) {
    self->registry_->AddNamed(address, connect(address));
  }
  if (options.own_node) {
    ASSIGN_OR_RETURN(self->own_node_, OwnNode::Start(*options.own_node));
    self->registry_->AddNamed(kOwnMemberName, self->own_node_->channel());
  }
  self->ticker_ = std::make_unique<RegistryTicker>(
      *self->registry_, options.registry.limits.heartbeat / kTicksPerHeartbeat);
  return self;
}

}  // namespace deltafin
