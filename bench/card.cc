#include "bench/card.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/measurement.h"

namespace deltafin::bench {

void Fail(const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
  std::exit(1);
}

void Check(cudaError_t error) {
  if (error != cudaSuccess) Fail(cudaGetErrorString(error));
}

CudaCard FindCard(int index) {
  std::string why;
  const std::vector<CudaCard> cards = FindCudaCards(&why);
  for (const CudaCard& card : cards) {
    if (card.index == index) return card;
  }
  Fail(cards.empty() ? why : "no card " + std::to_string(index));
}

std::unique_ptr<CudaMemory> AllocateOn(int card, size_t bytes) {
  std::string why;
  auto memory = CudaMemory::Allocate(card, bytes, &why);
  if (memory == nullptr) Fail(why);
  return memory;
}

CardTimer::CardTimer(cudaStream_t stream) : stream_(stream) {
  Check(cudaEventCreate(&begin_));
  Check(cudaEventCreate(&end_));
}

CardTimer::~CardTimer() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
}

void CardTimer::Begin() { Check(cudaEventRecord(begin_, stream_)); }

double CardTimer::End() {
  float ms = 0;
  Check(cudaEventRecord(end_, stream_));
  Check(cudaEventSynchronize(end_));
  Check(cudaEventElapsedTime(&ms, begin_, end_));
  return 1e3 * double{ms};
}

double CopySpeed(const CudaMemory& memory, cudaStream_t stream) {
  const size_t half = std::min(memory.size() / 2, size_t{4} << 30);
  std::vector<double> times;
  CardTimer timer(stream);
  for (int i = 0; i < 12; ++i) {
    timer.Begin();
    Check(cudaMemcpyAsync(memory.data() + half, memory.data(), half,
                          cudaMemcpyDeviceToDevice, stream));
    const double time = timer.End();
    if (i >= 2) times.push_back(time);
  }
  return 2e6 * static_cast<double>(half) / Median(times);
}

}  // namespace deltafin::bench
