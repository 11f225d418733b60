// The CUDA kernels of a program that was built without them.
#include "kernels/cuda/absent.h"
#include "kernels/cuda/cuda_copies.h"
#include "kernels/cuda/cuda_experts.h"

namespace deltafin {

struct CudaExperts::State {};

std::vector<CudaCard> FindCudaCards(std::string* why) {
  cuda::SayAbsent(why);
  return {};
}

bool FindFreeCudaMemory(int, size_t*, std::string* why) {
  return cuda::SayAbsent(why);
}

std::unique_ptr<CudaMemory> CudaMemory::Allocate(int, size_t,
                                                 std::string* why) {
  cuda::SayAbsent(why);
  return nullptr;
}

CudaMemory::~CudaMemory() = default;

bool CudaMemory::CopyIn(size_t, const void*, size_t, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaMemory::CopyOut(size_t, void*, size_t, std::string* why) const {
  return cuda::SayAbsent(why);
}

std::unique_ptr<CudaExperts> CudaExperts::Create(int, const CudaExpertLimits&,
                                                 std::string* why) {
  cuda::SayAbsent(why);
  return nullptr;
}

CudaExperts::CudaExperts(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

CudaExperts::~CudaExperts() = default;

bool CudaExperts::SetRecords(const CudaExpertRecord*, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaExperts::Enqueue(const CudaExpertCall&, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaExperts::Finish(CudaExpertResult*, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaExperts::Run(const CudaExpertCall&, CudaExpertResult*,
                      std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaExperts::CopyIn(void*, const void*, size_t, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaExperts::CopyOut(void*, const void*, size_t, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaExperts::Clear(void*, size_t, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaExperts::Wait(std::string* why) { return cuda::SayAbsent(why); }

void* CudaExperts::stream() const { return nullptr; }

bool PinCudaHostMemory(int, uint8_t*, size_t, std::string* why) {
  return cuda::SayAbsent(why);
}

void UnpinCudaHostMemory(uint8_t*) {}

std::unique_ptr<CudaPinnedMemory> CudaPinnedMemory::Allocate(int, size_t,
                                                             std::string* why) {
  cuda::SayAbsent(why);
  return nullptr;
}

CudaPinnedMemory::~CudaPinnedMemory() = default;

struct CudaCopies::State {};

std::unique_ptr<CudaCopies> CudaCopies::Create(int, int, std::string* why) {
  cuda::SayAbsent(why);
  return nullptr;
}

CudaCopies::CudaCopies(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

CudaCopies::~CudaCopies() = default;

bool CudaCopies::Start(int, uint8_t*, const uint8_t*, size_t,
                       std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaCopies::WaitFor(int, std::string* why) { return cuda::SayAbsent(why); }

bool CudaCopies::HoldBack(void*, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaCopies::Wait(std::string* why) { return cuda::SayAbsent(why); }

}  // namespace deltafin
