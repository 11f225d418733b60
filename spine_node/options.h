// spine_node/options.h
//
// What a spine is loaded with. Filled by the program's assembly; nothing in
// spine_node reads flags, files of settings or the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/thread_pool.h"
#include "kernels/kernel_registry.h"

namespace deltafin {

enum class SpinePrecision : uint8_t { kBf16, kInt8 };

struct SpineOptions {
  // Directory in released layout: config.json, index, shards.
  std::string model_dir;
  // kInt8 halves memory; its files are made on the first load.
  SpinePrecision precision = SpinePrecision::kBf16;
  // Required; outlives the spine.
  const KernelTarget* kernel = nullptr;
  // Required; outlives the spine. Used by one thread at a time: the one that
  // drives the spine.
  ThreadPool* threads = nullptr;
  // So many layers, StreamsLayer says which, are read from their spine files
  // for every step. 0: all are in memory.
  int num_streamed_layers = 0;
  // Layers before this one are held elsewhere (SplitSpine): neither their
  // weights are loaded nor have sequences states of them.
  int first_layer = 0;
  // Where spine files go when model_dir cannot be written. Empty: loading is
  // refused in that case.
  std::string cache_dir;
  // Bytes of retained generations per sequence (Spine::RetainGeneration); 0
  // keeps none, so a truncated sequence starts again from its beginning.
  int64_t generation_bytes = 0;
  // Told (what, done bytes, total bytes) while loading. May be empty.
  std::function<void(std::string_view, uint64_t, uint64_t)> progress;
};

}  // namespace deltafin
