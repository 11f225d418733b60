// The cards of this machine and their memory.
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_experts.h"

namespace deltafin {
namespace {

constexpr int kLowestCapability = 8;

using cuda::Succeeded;

bool DescribeCard(int index, CudaCard* card, std::string* why) {
  cudaDeviceProp properties;
  if (!Succeeded(cudaGetDeviceProperties(&properties, index), index,
                 "asking for its properties", why)) {
    return false;
  }
  card->index = index;
  card->name = properties.name;
  card->multiprocessors = properties.multiProcessorCount;
  if (properties.major < kLowestCapability) {
    *why = "CUDA card " + std::to_string(index) + " (" + card->name +
           ") has compute capability " + std::to_string(properties.major) +
           "." + std::to_string(properties.minor) + ", 8.0 is the lowest";
    return false;
  }
  return Succeeded(cudaSetDevice(index), index, "choosing it", why) &&
         Succeeded(cudaMemGetInfo(&card->free_bytes, &card->memory_bytes),
                   index, "asking for its memory", why);
}

}  // namespace

std::vector<CudaCard> FindCudaCards(std::string* why) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    *why = std::string("no CUDA card: ") + (error != cudaSuccess
                                                ? cudaGetErrorString(error)
                                                : "the driver sees none");
    return {};
  }
  std::vector<CudaCard> cards;
  for (int i = 0; i < count; ++i) {
    CudaCard card;
    if (DescribeCard(i, &card, why)) cards.push_back(card);
  }
  return cards;
}

bool FindFreeCudaMemory(int card, size_t* bytes, std::string* why) {
  size_t all = 0;
  return Succeeded(cudaSetDevice(card), card, "choosing it", why) &&
         Succeeded(cudaMemGetInfo(bytes, &all), card, "asking for its memory",
                   why);
}

std::unique_ptr<CudaMemory> CudaMemory::Allocate(int card, size_t bytes,
                                                 std::string* why) {
  void* data = nullptr;
  const std::string doing =
      "taking " + std::to_string(bytes) + " bytes of memory";
  if (!Succeeded(cudaSetDevice(card), card, "choosing it", why) ||
      !Succeeded(cudaMalloc(&data, bytes), card, doing.c_str(), why)) {
    return nullptr;
  }
  return std::unique_ptr<CudaMemory>(
      new CudaMemory(card, static_cast<uint8_t*>(data), bytes));
}

CudaMemory::~CudaMemory() {
  if (cudaSetDevice(card_) == cudaSuccess) cudaFree(data_);
}

bool CudaMemory::CopyIn(size_t offset, const void* from, size_t bytes,
                        std::string* why) {
  return Succeeded(cudaSetDevice(card_), card_, "choosing it", why) &&
         Succeeded(
             cudaMemcpy(data_ + offset, from, bytes, cudaMemcpyHostToDevice),
             card_, "copying to its memory", why);
}

bool CudaMemory::CopyOut(size_t offset, void* to, size_t bytes,
                         std::string* why) const {
  return Succeeded(cudaSetDevice(card_), card_, "choosing it", why) &&
         Succeeded(
             cudaMemcpy(to, data_ + offset, bytes, cudaMemcpyDeviceToHost),
             card_, "copying from its memory", why);
}

}  // namespace deltafin
