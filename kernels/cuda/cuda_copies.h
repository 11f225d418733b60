// kernels/cuda/cuda_copies.h
//
// Copies to a card that go on while it computes: memory of the host that the
// card reads by itself, and a stream for copies alone. Errors and absence as in
// cuda_experts.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace deltafin {

// Memory of the host that never moves, zero-filled.
class CudaPinnedMemory {
 public:
  static std::unique_ptr<CudaPinnedMemory> Allocate(int card, size_t bytes,
                                                    std::string* why);
  ~CudaPinnedMemory();
  CudaPinnedMemory(const CudaPinnedMemory&) = delete;
  CudaPinnedMemory& operator=(const CudaPinnedMemory&) = delete;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  CudaPinnedMemory(uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t* data_;
  size_t size_;
};

// Pins memory that others own, so that every card may copy from it by itself.
// It takes some milliseconds for each 10 MB, and pages that were never touched
// come to be. `data` on a page. It must be unpinned before it is freed or given
// back to the system, when no copy from it goes on. Thread-safe.
bool PinCudaHostMemory(int card, uint8_t* data, size_t bytes, std::string* why);
void UnpinCudaHostMemory(uint8_t* data);

// Copies in the order in which they are started. One thread at a time, but for
// WaitFor, which any may call for a mark that no other thread sets meanwhile.
class CudaCopies {
 public:
  // Marks 0 .. num_marks - 1 tell where copies end.
  static std::unique_ptr<CudaCopies> Create(int card, int num_marks,
                                            std::string* why);
  // Waits for them.
  ~CudaCopies();
  CudaCopies(const CudaCopies&) = delete;
  CudaCopies& operator=(const CudaCopies&) = delete;

  // Starts to copy from pinned memory to the card's, sets the mark behind it
  // and returns.
  bool Start(int mark, uint8_t* to, const uint8_t* from, size_t bytes,
             std::string* why);

  // Blocks until what lies before the mark is done; a mark that was never set
  // has nothing before it.
  bool WaitFor(int mark, std::string* why);

  // What is put on `stream` (CudaExperts::stream) from now on begins when all
  // copies that were started are done.
  bool HoldBack(void* stream, std::string* why);

  // Waits for all.
  bool Wait(std::string* why);

 private:
  struct State;
  explicit CudaCopies(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace deltafin
