// coordinator/slice_supply.h
//
// What the coordinator gives the nodes of its cluster of the model's experts:
// those in its own folder, and those of where that was installed from, each
// fetched once for all nodes. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/model_spec.h"
#include "expert_node/storage/hub_environment.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace deltafin {

class ExpertStore;
class OwnNode;

struct SliceSupplyOptions {
  std::string model_dir;
  ModelSpec spec;
  std::string manifest_digest;
  HubAccess hub;
  // Memory for experts that were fetched, for those who ask for them next.
  uint64_t staging_bytes = uint64_t{512} << 20;
};

class SliceSupply {
 public:
  // Touches no experts before somebody asks: another process of this machine
  // may have the folder. `own` has them open already; null: no node is in this
  // process. It must outlive this.
  SliceSupply(SliceSupplyOptions options, OwnNode* own);
  ~SliceSupply();

  // ExpertService with ReadSlices alone. Must not outlive this.
  grpc::Service& service();

  // Of slices that nodes were given, since the start.
  uint64_t bytes_sent() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace deltafin
