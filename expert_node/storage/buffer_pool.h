// expert_node/storage/buffer_pool.h
//
// Page-aligned buffers of finished reads and writes, for the next ones: as many
// as there were at once. Thread-safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/aligned_buffer.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"

namespace deltafin {

class BufferPool {
 public:
  // Gives its buffer back when it ends.
  class Lease {
   public:
    Lease(BufferPool& pool, AlignedBuffer buffer)
        : pool_(&pool), buffer_(std::move(buffer)) {}
    Lease(Lease&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          buffer_(std::move(other.buffer_)) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (pool_ != nullptr) pool_->Return(std::move(buffer_));
    }
    uint8_t* data() { return buffer_.data(); }

   private:
    BufferPool* pool_;
    AlignedBuffer buffer_;
  };

  // At least `bytes`, with any contents. Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<Lease> Take(size_t bytes) {
    AlignedBuffer buffer;
    {
      MutexLock lock(mutex_);
      if (!idle_.empty()) {
        buffer = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (buffer.size() < bytes) {
      ASSIGN_OR_RETURN(buffer, AlignedBuffer::Allocate(bytes));
    }
    return Lease(*this, std::move(buffer));
  }

 private:
  void Return(AlignedBuffer buffer) {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(buffer));
  }

  Mutex mutex_;
  std::vector<AlignedBuffer> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
