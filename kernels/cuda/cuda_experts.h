// kernels/cuda/cuda_experts.h
//
// Routed experts on an NVIDIA card, with the bits of the other kernels
// (docs/numerics.md sections 2, 3, 8; docs/cuda.md says how). A program built
// without CUDA has the same functions, which say so. Thread-compatible: one
// thread at a time for each object; objects are independent.
//
// Functions that may fail return false or nullptr with one sentence in *why
// that names the card; nothing here ends the program or throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/expert_weights.h"
#include "kernels/kernel_status.h"

namespace deltafin {

struct CudaCard {
  int index = 0;
  std::string name;
  int multiprocessors = 0;
  size_t memory_bytes = 0;
  size_t free_bytes = 0;  // when it was asked
};

// The cards that these kernels can use (compute capability 8.0 or later).
// Empty: *why says why there is none.
std::vector<CudaCard> FindCudaCards(std::string* why);

// Bytes of a card's memory that nobody has now.
bool FindFreeCudaMemory(int card, size_t* bytes, std::string* why);

// Memory of one card.
class CudaMemory {
 public:
  static std::unique_ptr<CudaMemory> Allocate(int card, size_t bytes,
                                              std::string* why);
  ~CudaMemory();
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  // Address on the card, a multiple of 256; not readable by the host.
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  int card() const { return card_; }

  // Blocking copies from and to the host. REQUIRES: offset + bytes <= size().
  bool CopyIn(size_t offset, const void* from, size_t bytes, std::string* why);
  bool CopyOut(size_t offset, void* to, size_t bytes, std::string* why) const;

 private:
  CudaMemory(int card, uint8_t* data, size_t size)
      : card_(card), data_(data), size_(size) {}

  int card_;
  uint8_t* data_;
  size_t size_;
};

// What one CudaExperts is made for.
struct CudaExpertLimits {
  ExpertShape shape;
  SituParams situ;
  int num_experts = 0;  // entries of the table of records
  int top_k = 0;        // routes of a token
  int max_tokens = 0;   // of a call
  // Every entry of the table is one slice, and a token has a route to each that
  // it wants. REQUIRES: num_experts <= kMaxSingleSlices.
  bool single_slices = false;
};
// Counted in the shared memory that every card gives.
inline constexpr int kMaxSingleSlices = 11 * 1024;

// Slices of an expert in a card's memory.
struct CudaExpertRecord {
  const uint8_t* slices = nullptr;  // bytes slice_offset(run.first) .. of the
                                    // record, a multiple of 16; nullptr: not
                                    // here, routes to it add nothing
  SliceRun run;
};

struct CudaExpertRoute {
  int32_t expert = -1;  // index into the table; -1: none
  float weight = 0;
};

// Tokens that a call may compute each by itself.
inline constexpr int kMaxTokensAlone = 8;

// Whether that takes less time for a call of so many tokens: they want almost
// as many different slices as slices, none many more than the others. `most`:
// the slices of one of them; `all`: of all together; `different`: of those.
inline bool SoonerAlone(int num_tokens, int64_t most, int64_t all,
                        int64_t different) {
  return num_tokens <= kMaxTokensAlone && 8 * all <= 9 * different &&
         7 * num_tokens * most <= 8 * all;
}

// All addresses on the card.
struct CudaExpertCall {
  const float* x = nullptr;  // [num_tokens, L], at a multiple of 16
  const CudaExpertRoute* routes = nullptr;  // [num_tokens, top_k]
  int num_tokens = 0;                       // 1 .. max_tokens
  int64_t* sums = nullptr;  // [num_tokens, L] fixed point (scale 2^40); written
  bool adds = false;        // added to instead

  // A table for this call alone; nullptr: that of SetRecords.
  const CudaExpertRecord* records = nullptr;
  int num_records = 0;  // of it; at most num_experts of the limits
  int top_k = 0;  // routes of a token; 0: as the limits say, which is most
  // Each token by itself, where the card can: the same sums.
  bool alone = false;
};

struct CudaExpertResult {
  KernelStatus status = KernelStatus::kOk;
  int expert = -1;  // of kOverflow, the lowest one
  int token = -1;   // the lowest of that expert, or of kNotFinite
};

class CudaExperts {
 public:
  // Takes the card's memory for max_tokens (some MB; 160 MB for 512 tokens of
  // the full model).
  static std::unique_ptr<CudaExperts> Create(int card,
                                             const CudaExpertLimits& limits,
                                             std::string* why);
  ~CudaExperts();
  CudaExperts(const CudaExperts&) = delete;
  CudaExperts& operator=(const CudaExperts&) = delete;

  // The table that later calls use: [num_experts], copied. Waits for calls in
  // progress. The slices must outlive their use. REQUIRES: no scale byte of
  // them is 255.
  bool SetRecords(const CudaExpertRecord* records, std::string* why);

  // Starts a call and returns; calls run in order. Errors of the computation
  // are kept for Finish; sums are undefined then.
  bool Enqueue(const CudaExpertCall& call, std::string* why);

  // Waits for all calls. *result: the worst of them since the last Finish.
  bool Finish(CudaExpertResult* result, std::string* why);

  // One whole call with x, routes and sums in the host's memory.
  bool Run(const CudaExpertCall& host, CudaExpertResult* result,
           std::string* why);

  // Copies and zeros in the order of the calls. With pinned memory
  // (cuda_copies.h) they return before they are done, and the host's side may
  // be used again after Wait or Finish.
  bool CopyIn(void* to, const void* from, size_t bytes, std::string* why);
  bool CopyOut(void* to, const void* from, size_t bytes, std::string* why);
  bool Clear(void* memory, size_t bytes, std::string* why);
  // Waits for all that was started; errors of computation stay for Finish.
  bool Wait(std::string* why);

  // The CUDA stream of the calls.
  void* stream() const;

 private:
  struct State;
  explicit CudaExperts(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace deltafin
