// The spine's kernels of a program that was built without CUDA.
#include "kernels/cuda/absent.h"
#include "kernels/cuda/spine_card.h"

namespace deltafin {

struct CudaSpine::State {};

size_t CudaMatrixBytes(int, int, bool) { return 0; }

CudaSpine::CudaSpine(std::unique_ptr<State> state) : state_(std::move(state)) {}

CudaSpine::~CudaSpine() = default;

bool CudaSpine::Supports(const CudaSpineShape&, std::string* why) {
  return cuda::SayAbsent(why);
}

std::unique_ptr<CudaSpine> CudaSpine::Create(int, const CudaSpineShape&, void*,
                                             std::string* why) {
  cuda::SayAbsent(why);
  return nullptr;
}

bool CudaSpine::Begin(const float*, int, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaSpine::Attend(const CudaSpineLayer&, bool, const CudaSequence*, int,
                       std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaSpine::DenseMlp(const CudaSpineLayer&, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaSpine::Route(const CudaSpineLayer&, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaSpine::TakeRouted(CudaRouted*, bool*, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaSpine::SharedExperts(const CudaSpineLayer&, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaSpine::AddRoutedExperts(const CudaSpineLayer&, const int64_t*,
                                 std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaSpine::Logits(const CudaSpineHead&, const float**, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaSpine::Prefix(const float**, std::string* why) {
  return cuda::SayAbsent(why);
}

bool CudaSpine::Fetch(const float*, size_t, float*, std::string* why) {
  return cuda::SayAbsent(why);
}

void* CudaSpine::stream() const { return nullptr; }

int CudaSpine::num_snapshots() const { return 0; }

const float* CudaSpine::snapshot(int) const { return nullptr; }

}  // namespace deltafin
