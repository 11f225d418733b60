// kernels/cuda/strip_sources.cuh
//
// Where the strips of a unit lie in a slice. Part of layer.cu. Private to
// kernels/cuda/.
#pragma once

#include "kernels/cuda/block_state.cuh"

namespace deltafin::cuda {
namespace {

// The warp's strip of a unit of gate and up.
__device__ int UpStrip(const Task& task) {
  return task.part * kUnitStrips + Warp() % kUnitStrips;
}

__device__ StripSource UpSource(const LayerView& view, const Task& task) {
  const int columns = task.job.columns;
  const int groups = view.shape.latent_size / kMxfp4Group;
  const size_t matrix = static_cast<size_t>(columns) * groups * kGroupRowBytes;
  const int strip = UpStrip(task);
  return {task.job.slice + (Warp() >= kUnitStrips ? matrix : 0), columns, strip,
          strip * kStripRows < columns ? groups : 0};
}

// Rows of a unit of down.
template <int kDownBlocks>
__device__ int DownRow(const Task& task) {
  return task.part * (kDownBlocks * kTileBlockRows);
}
template <int kDownBlocks>
__device__ int DownEnd(const LayerView& view, const Task& task) {
  return min(DownRow<kDownBlocks>(task) + kDownBlocks * kTileBlockRows,
             view.shape.latent_size);
}

// Row blocks of down from `row` that one stream of tiles can take: full ones of
// whole stages, or a single one.
template <int kDownBlocks>
__device__ int BlocksInOneStream(const LayerView& view, const Task& task,
                                 int row) {
  const bool whole = task.job.columns % (kStageTiles * kTileColumns) == 0;
  const int full = (DownEnd<kDownBlocks>(view, task) - row) / kTileBlockRows;
  return whole && full > 0 ? full : 1;
}

template <int kDownBlocks>
__device__ StripSource DownSource(const LayerView& view, const Task& task,
                                  int row) {
  const int columns = task.job.columns;
  const int groups = columns / kMxfp4Group;
  const int latent = view.shape.latent_size;
  const size_t up = static_cast<size_t>(2) * columns * (latent / kMxfp4Group);
  const int rows = min(kTileBlockRows, latent - row);
  return {task.job.slice +
              (up + static_cast<size_t>(row) * groups) * kGroupRowBytes,
          rows, Warp(),
          Warp() * kStripRows < rows
              ? groups * BlocksInOneStream<kDownBlocks>(view, task, row)
              : 0};
}

// The warp's first strip of a task.
template <int kDownBlocks>
__device__ StripSource FirstSource(const LayerView& view, const Task& task) {
  if (task.work == Work::kUp) return UpSource(view, task);
  if (task.work == Work::kDown) {
    return DownSource<kDownBlocks>(view, task, DownRow<kDownBlocks>(task));
  }
  return {nullptr, 0, 0, 0};
}

}  // namespace
}  // namespace deltafin::cuda
