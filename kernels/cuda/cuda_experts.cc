// Memory, stream and calls of a layer's experts on a card.
#include "kernels/cuda/cuda_experts.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/launches.h"

namespace deltafin {
namespace {

using cuda::Succeeded;

constexpr cuda::Errors kNoErrors = {~0u, 0, ~0ull};
// Units of gate and up that are ahead of those of down, beyond what all blocks
// hold at once.
constexpr int kSpareJobs = 8;
constexpr size_t kHandedWords =
    size_t{cuda::kMaxOneTokenJobs} * cuda::kSliceGroups * 32;  // of a token

// Cards whose layers of one token have a kernel of their own, for one object
// each (LaunchOneToken). Thread-safe.
class OneTokenCards {
 public:
  static OneTokenCards& Get() {
    static OneTokenCards cards;
    return cards;
  }
  bool Claim(int card) {
    const std::lock_guard lock(mutex_);
    return claimed_.insert(card).second;
  }
  void Release(int card) {
    const std::lock_guard lock(mutex_);
    claimed_.erase(card);
  }

 private:
  std::mutex mutex_;
  std::set<int> claimed_;
};

// Parts of one allocation, each on 256 bytes.
class Carver {
 public:
  // Counts; with a base it also sets *part.
  explicit Carver(uint8_t* base) : base_(base) {}

  template <typename T>
  void Take(T** part, size_t count) {
    if (base_ != nullptr) *part = reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + 255) / 256 * 256;
  }
  size_t used() const { return used_; }

 private:
  uint8_t* base_;
  size_t used_ = 0;
};

}  // namespace

struct CudaExperts::State {
  ~State();

  bool Start(std::string* why);
  bool Check(cudaError_t error, const char* doing, std::string* why) const {
    return Succeeded(error, card, doing, why);
  }
  void Carve(Carver* carver);
  size_t handed_words() const {
    return kHandedWords * std::min(limits.max_tokens, kMaxTokensAlone);
  }
  bool MayRunAlone(const CudaExpertCall& call) const {
    return call.num_tokens == 1 ||
           (call.alone && call.num_tokens <= kMaxTokensAlone &&
            call.num_tokens <= view.multiprocessors);
  }
  bool LaunchOne(bool adds, std::string* why);

  int card = 0;
  bool has_one_token = false;  // claimed
  CudaExpertLimits limits;
  std::unique_ptr<CudaMemory> memory;
  cudaStream_t stream = nullptr;
  cuda::LayerView view = {};
  CudaExpertRecord* records = nullptr;
  // For Run.
  float* x = nullptr;
  CudaExpertRoute* routes = nullptr;
  int64_t* sums = nullptr;
};

CudaExperts::State::~State() {
  if (stream != nullptr && cudaSetDevice(card) == cudaSuccess) {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
  if (has_one_token) OneTokenCards::Get().Release(card);
}

void CudaExperts::State::Carve(Carver* carver) {
  const size_t tokens = limits.max_tokens;
  const size_t latent = limits.shape.latent_size;
  const size_t jobs = cuda::MaxJobs(limits);
  const size_t rows = tokens * (latent / kMxfp4Group);
  const size_t inner = jobs * cuda::kProductTokens * cuda::kSliceGroups;
  carver->Take(&records, limits.num_experts);
  carver->Take(&x, tokens * latent);
  carver->Take(&routes, tokens * limits.top_k);
  carver->Take(&sums, tokens * latent);
  carver->Take(&view.pairs, tokens * limits.top_k);
  carver->Take(&view.jobs, jobs);
  carver->Take(&view.counts, 1);
  carver->Take(&view.ready, jobs);
  carver->Take(&view.handed, handed_words());
  carver->Take(&view.cleared, 1);
  carver->Take(&view.errors, 1);
  carver->Take(&view.latent.limbs, rows * cuda::kActivationBytes);
  carver->Take(&view.latent.heads, rows);
  carver->Take(&view.inner.limbs, inner * cuda::kActivationBytes);
  carver->Take(&view.inner.heads, inner);
}

bool CudaExperts::State::Start(std::string* why) {
  Carver count(nullptr);
  Carve(&count);
  memory = CudaMemory::Allocate(card, count.used(), why);
  if (memory == nullptr) return false;
  Carver carver(memory->data());
  Carve(&carver);
  view.shape = limits.shape;
  if (!Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
             "making a stream", why) ||
      !Check(cuda::PlanLaunches(&view), "asking how many blocks run at once",
             why)) {
    return false;
  }
  view.situ = limits.situ;
  has_one_token = OneTokenCards::Get().Claim(card);
  if (!has_one_token) view.one_token_jobs = 0;
  view.slices_of_record = cuda::SlicesOfRecord(limits);
  view.lead = view.blocks / view.up_units() + kSpareJobs;
  return Check(cudaMemset(memory->data(), 0, memory->size()), "clearing memory",
               why) &&
         Check(cudaMemcpy(view.errors, &kNoErrors, sizeof(kNoErrors),
                          cudaMemcpyHostToDevice),
               "clearing its errors", why);
}

std::unique_ptr<CudaExperts> CudaExperts::Create(int card,
                                                 const CudaExpertLimits& limits,
                                                 std::string* why) {
  auto state = std::make_unique<State>();
  state->card = card;
  state->limits = limits;
  if (!state->Start(why)) return nullptr;
  return std::unique_ptr<CudaExperts>(new CudaExperts(std::move(state)));
}

CudaExperts::CudaExperts(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

CudaExperts::~CudaExperts() = default;

bool CudaExperts::SetRecords(const CudaExpertRecord* records,
                             std::string* why) {
  State& s = *state_;
  const size_t bytes = s.limits.num_experts * sizeof(*records);
  return s.Check(cudaSetDevice(s.card), "choosing it", why) &&
         s.Check(cudaMemcpyAsync(s.records, records, bytes,
                                 cudaMemcpyHostToDevice, s.stream),
                 "copying the table of records", why) &&
         s.Check(cudaStreamSynchronize(s.stream),
                 "copying the table of records", why);
}

bool CudaExperts::State::LaunchOne(bool adds, std::string* why) {
  if (!Check(cudaSetDevice(card), "choosing it", why)) return false;
  if (++view.call == 0) {  // after four billion of them
    view.call = 1;
    if (!Check(cudaMemsetAsync(view.handed, 0,
                               handed_words() * sizeof(*view.handed), stream),
               "clearing memory", why)) {
      return false;
    }
  }
  if (!adds) view.clearings += view.multiprocessors;
  return Check(cuda::LaunchOneToken(view, stream), "starting a layer's experts",
               why);
}

bool CudaExperts::Enqueue(const CudaExpertCall& call, std::string* why) {
  State& s = *state_;
  s.view.x = call.x;
  s.view.routes = call.routes;
  s.view.num_tokens = call.num_tokens;
  s.view.sums = call.sums;
  s.view.adds = call.adds;
  const bool has_table = call.records != nullptr;
  s.view.records = has_table ? call.records : s.records;
  s.view.num_experts = has_table ? call.num_records : s.limits.num_experts;
  s.view.top_k = call.top_k > 0 ? call.top_k : s.limits.top_k;
  const int token_jobs = s.view.top_k * s.view.slices_of_record;
  const int most_jobs = call.num_tokens * token_jobs;
  if (s.MayRunAlone(call) && token_jobs <= s.view.one_token_jobs) {
    return s.LaunchOne(call.adds, why);
  }
  s.view.few_jobs = most_jobs <= s.view.blocks;
  return s.Check(cudaSetDevice(s.card), "choosing it", why) &&
         s.Check(cuda::LaunchPrepare(s.view, s.stream), "starting a layer",
                 why) &&
         s.Check(cuda::LaunchLayer(s.view, s.stream),
                 "starting a layer's experts", why);
}

bool CudaExperts::Finish(CudaExpertResult* result, std::string* why) {
  State& s = *state_;
  cuda::Errors errors = kNoErrors;
  if (!s.Check(cudaSetDevice(s.card), "choosing it", why) ||
      !s.Check(cudaMemcpyAsync(&errors, s.view.errors, sizeof(errors),
                               cudaMemcpyDeviceToHost, s.stream),
               "reading its errors", why) ||
      !s.Check(cudaMemcpyAsync(s.view.errors, &kNoErrors, sizeof(kNoErrors),
                               cudaMemcpyHostToDevice, s.stream),
               "clearing its errors", why) ||
      !s.Check(cudaStreamSynchronize(s.stream), "running the experts", why)) {
    return false;
  }
  *result = {};
  if (errors.not_finite_token != kNoErrors.not_finite_token) {
    *result = {KernelStatus::kNotFinite, -1,
               static_cast<int>(errors.not_finite_token)};
  } else if (errors.overflow != kNoErrors.overflow) {
    *result = {KernelStatus::kOverflow, static_cast<int>(errors.overflow >> 32),
               static_cast<int>(errors.overflow & 0xffffffff)};
  }
  return true;
}

bool CudaExperts::Run(const CudaExpertCall& host, CudaExpertResult* result,
                      std::string* why) {
  State& s = *state_;
  const size_t values =
      static_cast<size_t>(host.num_tokens) * s.limits.shape.latent_size;
  const size_t routes = static_cast<size_t>(host.num_tokens) * s.limits.top_k;
  CudaExpertCall on_card = {s.x, s.routes, host.num_tokens, s.sums};
  on_card.alone = host.alone;
  return s.Check(cudaSetDevice(s.card), "choosing it", why) &&
         s.Check(cudaMemcpyAsync(s.x, host.x, values * sizeof(*s.x),
                                 cudaMemcpyHostToDevice, s.stream),
                 "copying tokens", why) &&
         s.Check(
             cudaMemcpyAsync(s.routes, host.routes, routes * sizeof(*s.routes),
                             cudaMemcpyHostToDevice, s.stream),
             "copying routes", why) &&
         Enqueue(on_card, why) &&
         s.Check(cudaMemcpyAsync(host.sums, s.sums, values * sizeof(*s.sums),
                                 cudaMemcpyDeviceToHost, s.stream),
                 "copying sums", why) &&
         Finish(result, why);
}

bool CudaExperts::CopyIn(void* to, const void* from, size_t bytes,
                         std::string* why) {
  State& s = *state_;
  return s.Check(cudaSetDevice(s.card), "choosing it", why) &&
         s.Check(
             cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s.stream),
             "copying what a layer needs", why);
}

bool CudaExperts::CopyOut(void* to, const void* from, size_t bytes,
                          std::string* why) {
  State& s = *state_;
  return s.Check(cudaSetDevice(s.card), "choosing it", why) &&
         s.Check(
             cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s.stream),
             "copying a layer's sums", why);
}

bool CudaExperts::Clear(void* memory, size_t bytes, std::string* why) {
  State& s = *state_;
  return s.Check(cudaSetDevice(s.card), "choosing it", why) &&
         s.Check(cudaMemsetAsync(memory, 0, bytes, s.stream),
                 "clearing a layer's sums", why);
}

bool CudaExperts::Wait(std::string* why) {
  State& s = *state_;
  return s.Check(cudaSetDevice(s.card), "choosing it", why) &&
         s.Check(cudaStreamSynchronize(s.stream), "running the experts", why);
}

void* CudaExperts::stream() const { return state_->stream; }

}  // namespace deltafin
