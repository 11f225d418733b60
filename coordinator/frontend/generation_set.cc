#include "coordinator/frontend/generation_set.h"

#include <utility>
#include <vector>

#include "coordinator/frontend/openai_generation.h"

namespace deltafin {

void GenerationSet::Add(std::shared_ptr<OpenAiGeneration> generation) {
  MutexLock lock(mutex_);
  const OpenAiGeneration* key = generation.get();
  all_[key] = std::move(generation);
}

void GenerationSet::Remove(const OpenAiGeneration* generation) {
  MutexLock lock(mutex_);
  all_.erase(generation);
  changed_.NotifyAll();
}

void GenerationSet::CancelAll() {
  std::vector<std::shared_ptr<OpenAiGeneration>> running;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, generation] : all_) running.push_back(generation);
  }
  for (const auto& generation : running) generation->Cancel();
  running.clear();
  MutexLock lock(mutex_);
  while (!all_.empty()) changed_.Wait(mutex_);
}

}  // namespace deltafin
