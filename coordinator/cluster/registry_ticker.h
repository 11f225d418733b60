// coordinator/cluster/registry_ticker.h
//
// The thread that lets a registry notice silence, and tells when the cluster
// goes down or comes up. The thread lives as long as the object.
#pragma once

#include <functional>
#include <thread>

#include "common/base/mutex.h"
#include "coordinator/cluster/node_registry.h"

namespace deltafin {

class RegistryTicker {
 public:
  // `registry` must outlive this.
  RegistryTicker(NodeRegistry& registry, absl::Duration interval);
  ~RegistryTicker();
  RegistryTicker(const RegistryTicker&) = delete;
  RegistryTicker& operator=(const RegistryTicker&) = delete;

  // Calls `listener` on the thread, now and whenever it changes: can every
  // expert be computed? Null: nobody any more; waits for a call that runs.
  void SetListener(std::function<void(bool is_up)> listener);

 private:
  void Loop();

  NodeRegistry& registry_;
  const absl::Duration interval_;
  Mutex mutex_;
  CondVar changed_;
  std::function<void(bool)> listener_ ABSL_GUARDED_BY(mutex_);
  bool is_told_ ABSL_GUARDED_BY(mutex_) = false;
  bool was_up_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace deltafin
