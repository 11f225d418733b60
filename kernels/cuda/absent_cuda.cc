// The CUDA kernels of a program that was built without them.
#include "kernels/cuda/cuda_copies.h"
#include "kernels/cuda/cuda_experts.h"

namespace deltafin {
namespace {

constexpr char kAbsent[] =
    "this program was built without CUDA (cmake -DDELTAFIN_CUDA=ON)";

}  // namespace

struct CudaExperts::State {};

std::vector<CudaCard> FindCudaCards(std::string* why) {
  *why = kAbsent;
  return {};
}

bool FindFreeCudaMemory(int, size_t*, std::string* why) {
  *why = kAbsent;
  return false;
}

std::unique_ptr<CudaMemory> CudaMemory::Allocate(int, size_t,
                                                 std::string* why) {
  *why = kAbsent;
  return nullptr;
}

CudaMemory::~CudaMemory() = default;

bool CudaMemory::CopyIn(size_t, const void*, size_t, std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaMemory::CopyOut(size_t, void*, size_t, std::string* why) const {
  *why = kAbsent;
  return false;
}

std::unique_ptr<CudaExperts> CudaExperts::Create(int, const CudaExpertLimits&,
                                                 std::string* why) {
  *why = kAbsent;
  return nullptr;
}

CudaExperts::CudaExperts(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

CudaExperts::~CudaExperts() = default;

bool CudaExperts::SetRecords(const CudaExpertRecord*, std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaExperts::Enqueue(const CudaExpertCall&, std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaExperts::Finish(CudaExpertResult*, std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaExperts::Run(const CudaExpertCall&, CudaExpertResult*,
                      std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaExperts::CopyIn(void*, const void*, size_t, std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaExperts::CopyOut(void*, const void*, size_t, std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaExperts::Clear(void*, size_t, std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaExperts::Wait(std::string* why) {
  *why = kAbsent;
  return false;
}

void* CudaExperts::stream() const { return nullptr; }

std::unique_ptr<CudaPinnedMemory> CudaPinnedMemory::Allocate(int, size_t,
                                                             std::string* why) {
  *why = kAbsent;
  return nullptr;
}

CudaPinnedMemory::~CudaPinnedMemory() = default;

struct CudaCopies::State {};

std::unique_ptr<CudaCopies> CudaCopies::Create(int, int, std::string* why) {
  *why = kAbsent;
  return nullptr;
}

CudaCopies::CudaCopies(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

CudaCopies::~CudaCopies() = default;

bool CudaCopies::Start(int, uint8_t*, const uint8_t*, size_t,
                       std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaCopies::WaitFor(int, std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaCopies::HoldBack(void*, std::string* why) {
  *why = kAbsent;
  return false;
}

bool CudaCopies::Wait(std::string* why) {
  *why = kAbsent;
  return false;
}

}  // namespace deltafin
