// coordinator/frontend/generation_set.h
//
// The requests of the HTTP API that have not ended, so that none is left when
// their service goes. Thread-safe.
#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"

namespace deltafin {

class OpenAiGeneration;

class GenerationSet {
 public:
  // Keeps it alive until Remove.
  void Add(std::shared_ptr<OpenAiGeneration> generation);
  void Remove(const OpenAiGeneration* generation);

  // Blocks until the scheduler has ended all that is there. REQUIRES: nothing
  // is added any more.
  void CancelAll();

 private:
  Mutex mutex_;
  CondVar changed_;
  absl::flat_hash_map<const OpenAiGeneration*,
                      std::shared_ptr<OpenAiGeneration>>
      all_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
