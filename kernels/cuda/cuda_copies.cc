#include "kernels/cuda/cuda_copies.h"

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_check.h"

namespace deltafin {

using cuda::Succeeded;

std::unique_ptr<CudaPinnedMemory> CudaPinnedMemory::Allocate(int card,
                                                             size_t bytes,
                                                             std::string* why) {
  void* data = nullptr;
  const std::string doing =
      "pinning " + std::to_string(bytes) + " bytes of the host's memory";
  if (!Succeeded(cudaSetDevice(card), card, "choosing it", why) ||
      !Succeeded(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), card,
                 doing.c_str(), why)) {
    return nullptr;
  }
  std::memset(data, 0, bytes);
  return std::unique_ptr<CudaPinnedMemory>(
      new CudaPinnedMemory(static_cast<uint8_t*>(data), bytes));
}

CudaPinnedMemory::~CudaPinnedMemory() { cudaFreeHost(data_); }

bool PinCudaHostMemory(int card, uint8_t* data, size_t bytes,
                       std::string* why) {
  const std::string doing =
      "pinning " + std::to_string(bytes) + " bytes of the host's memory";
  return Succeeded(cudaSetDevice(card), card, "choosing it", why) &&
         Succeeded(cudaHostRegister(data, bytes, cudaHostRegisterPortable),
                   card, doing.c_str(), why);
}

void UnpinCudaHostMemory(uint8_t* data) { cudaHostUnregister(data); }

struct CudaCopies::State {
  ~State();

  bool Start(int num_marks, std::string* why);
  bool Check(cudaError_t error, const char* doing, std::string* why) const {
    return Succeeded(error, card, doing, why);
  }

  int card = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t all = nullptr;
  std::vector<cudaEvent_t> marks;
};

CudaCopies::State::~State() {
  if (stream == nullptr || cudaSetDevice(card) != cudaSuccess) return;
  cudaStreamSynchronize(stream);
  for (cudaEvent_t mark : marks) cudaEventDestroy(mark);
  if (all != nullptr) cudaEventDestroy(all);
  cudaStreamDestroy(stream);
}

bool CudaCopies::State::Start(int num_marks, std::string* why) {
  if (!Check(cudaSetDevice(card), "choosing it", why) ||
      !Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
             "making a stream for copies", why) ||
      !Check(cudaEventCreateWithFlags(&all, cudaEventDisableTiming),
             "making an event", why)) {
    return false;
  }
  for (int i = 0; i < num_marks; ++i) {
    cudaEvent_t mark = nullptr;
    if (!Check(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming),
               "making an event", why)) {
      return false;
    }
    marks.push_back(mark);
  }
  return true;
}

std::unique_ptr<CudaCopies> CudaCopies::Create(int card, int num_marks,
                                               std::string* why) {
  auto state = std::make_unique<State>();
  state->card = card;
  if (!state->Start(num_marks, why)) return nullptr;
  return std::unique_ptr<CudaCopies>(new CudaCopies(std::move(state)));
}

CudaCopies::CudaCopies(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

CudaCopies::~CudaCopies() = default;

bool CudaCopies::Start(int mark, uint8_t* to, const uint8_t* from, size_t bytes,
                       std::string* why) {
  State& s = *state_;
  return s.Check(cudaSetDevice(s.card), "choosing it", why) &&
         s.Check(
             cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s.stream),
             "copying experts", why) &&
         s.Check(cudaEventRecord(s.marks[mark], s.stream), "copying experts",
                 why);
}

bool CudaCopies::WaitFor(int mark, std::string* why) {
  State& s = *state_;
  return s.Check(cudaEventSynchronize(s.marks[mark]), "copying experts", why);
}

bool CudaCopies::HoldBack(void* stream, std::string* why) {
  State& s = *state_;
  return s.Check(cudaSetDevice(s.card), "choosing it", why) &&
         s.Check(cudaEventRecord(s.all, s.stream), "copying experts", why) &&
         s.Check(
             cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), s.all, 0),
             "copying experts", why);
}

bool CudaCopies::Wait(std::string* why) {
  State& s = *state_;
  return s.Check(cudaSetDevice(s.card), "choosing it", why) &&
         s.Check(cudaStreamSynchronize(s.stream), "copying experts", why);
}

}  // namespace deltafin
