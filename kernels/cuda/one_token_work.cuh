// kernels/cuda/one_token_work.cuh
//
// What a warp of RunOneToken does next, known before it has ended what it does:
// its copies go on from one strip to the next. Included by one file. Private to
// kernels/cuda/.
#pragma once

#include <cstddef>

#include "kernels/cuda/one_token_inputs.cuh"

namespace deltafin::cuda {
namespace {

// The warp's strips in order: those of gate or up that it has, then those of
// the block's down that nobody else of the block took.
class WarpWork {
 public:
  __device__ explicit WarpWork(const LayerView& view)
      : view_(view), own_(SharedAddress(&OwnShared(view))) {}

  // The first whose products are not done.
  __device__ Strip current() const {
    if (popped() == Get(offsetof(WarpShared, pushed))) return Strip::None();
    return {Get(QueuePlace(popped()))};
  }
  __device__ void Pop() { Set(offsetof(WarpShared, popped), popped() + 1); }
  __device__ uint32_t popped() const {
    return Get(offsetof(WarpShared, popped));
  }

  // Takes another strip; None(): there is none.
  __device__ Strip Take() {
    Strip strip = TakeUp();
    if (strip.IsNone()) strip = TakeDown();
    if (strip.IsNone()) return strip;
    const uint32_t pushed = Get(offsetof(WarpShared, pushed));
    Set(QueuePlace(pushed), strip.number);
    Set(offsetof(WarpShared, pushed), pushed + 1);
    return strip;
  }

  __device__ StripSource SourceOf(Strip strip) const {
    const TokenJob& job = SharedHeader().jobs[strip.job()];
    const int latent = view_.shape.latent_size;
    const int groups = LatentGroups(view_);
    const int matrix = job.columns * groups * kGroupRowBytes;
    if (!strip.down()) {
      return {job.slice + (Warp() % 2 != 0 ? matrix : 0), job.columns,
              strip.part(), groups};
    }
    const int row = strip.part() / kBlockStrips * kTileBlockRows;
    const int inner = job.columns / kMxfp4Group;
    return {job.slice + 2 * matrix + row * inner * kGroupRowBytes,
            min(kTileBlockRows, latent - row), strip.part() % kBlockStrips,
            inner * (1 + strip.more())};
  }

 private:
  __device__ static uint32_t QueuePlace(uint32_t number) {
    return offsetof(WarpShared, queue) + number % 4 * sizeof(Strip);
  }
  __device__ uint32_t Get(uint32_t offset) const {
    return LoadShared4(own_ + offset);
  }
  // All lanes write the same.
  __device__ void Set(uint32_t offset, uint32_t value) const {
    __syncwarp();
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(own_ + offset), "r"(value)
                 : "memory");
    __syncwarp();
  }

  __device__ Strip TakeUp() const {
    const Header& header = SharedHeader();
    while (true) {
      const int unit = static_cast<int>(Get(offsetof(WarpShared, next_up)));
      const int end = static_cast<int>(Get(offsetof(WarpShared, end_up)));
      if (unit >= end) return Strip::None();
      Set(offsetof(WarpShared, next_up),
          unit + Get(offsetof(WarpShared, up_step)));
      const Strip strip = Strip::Up(unit / kUpUnits, unit % kUpUnits);
      if (strip.part() * kTileRows < header.jobs[strip.job()].columns) {
        return strip;
      }
    }
  }

  __device__ Strip TakeDown() const {
    Header& header = SharedHeader();
    int ticket = 0;
    if (Lane() == 0) ticket = atomicAdd(&header.next_down, 1);
    ticket = __shfl_sync(kAllLanes, ticket, 0);
    const int later = ticket >= header.share.num_down[0];
    if (later != 0) ticket -= header.share.num_down[0];
    if (ticket >= header.share.num_down[later]) return Strip::None();
    const DownItems& items = header.items;
    int job = header.share.first_job[later];
    int item = header.share.first_item[later] + ticket;
#pragma unroll 1
    for (; item >= items.of_job; item -= items.of_job) ++job;
    if (items.row_blocks == 1) return Strip::Down(job, item, 0);
    const int block = item / kBlockStrips * items.row_blocks;
    const int blocks =
        min(items.row_blocks, LatentGroups(view_) / kBlockStrips - block);
    return Strip::Down(job, block * kBlockStrips + item % kBlockStrips,
                       blocks - 1);
  }

  const LayerView& view_;
  const uint32_t own_;
};

// The tiles of the warp's strips, one after the other.
class WorkTiles : public StripTiles {
 public:
  __device__ explicit WorkTiles(const LayerView& view)
      : StripTiles(OwnShared(view).stages), work_(view), slow_(IsLater()) {
#pragma unroll 1
    for (int s = 0; s < kStages - 1; ++s) CopyNext(Stage(s));
  }

  __device__ WarpWork& work() { return work_; }

  __device__ __forceinline__ void Next() {
    if (slow_) WaitForCopies();
    WaitForStage();
    CopyNext(read_stage());
    StepStage();
  }

 private:
  __device__ __forceinline__ void CopyNext(uint32_t stage) {
    if (AllCopied()) {
      const Strip strip = work_.Take();
      if (!strip.IsNone()) Follow(work_.SourceOf(strip));
      slow_ = slow_ && !strip.down();
    }
    CopyIfAny(stage);
  }

  WarpWork work_;
  bool slow_;  // a later unit of gate and up: one stage on its way, not two
};

}  // namespace
}  // namespace deltafin::cuda
