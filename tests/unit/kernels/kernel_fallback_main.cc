// Run under an emulated processor without AVX2: the choice must fall on the
// reference, give the stored sums, and refuse wider targets with one sentence.
#include <cstdio>
#include <string>

#include "tests/unit/kernels/expert_cases.h"
#include "tests/unit/kernels/expert_runner.h"

namespace deltafin {
namespace {

constexpr uint64_t kSumsDigest = 0x6122818cf9d8aac9;

int failures = 0;

void Expect(bool ok, const char* what) {
  std::printf("%s: %s\n", ok ? "ok" : "FAILED", what);
  failures += !ok;
}

uint64_t DigestOfSums(const KernelTarget& target) {
  XorShift64 random;
  ExpertCase c;
  c.shape = {96, 288};
  c.num_tokens = 3;
  FillExpertCase(ExpertKind::kOrdinary, &random, &c);
  const RunResult result =
      RunSlices(target, c, 0, 3, {0, c.shape.num_slices()});
  Expect(result.status == KernelStatus::kOk, "the expert runs");
  Digest digest;
  for (const int64_t sum : result.sums) digest.AddNumber(sum);
  return digest.value();
}

int Main() {
  SetContractFloatingPointMode();
  const KernelTarget& best = BestKernel();
  std::printf("chosen kernel: %s\n", best.name);
  Expect(best.name == std::string("reference"), "the reference is chosen");
  const uint64_t digest = DigestOfSums(best);
  std::printf("digest of the sums: %016llx\n",
              static_cast<unsigned long long>(digest));
  Expect(digest == kSumsDigest, "the digest is the stored one");
  std::string why;
  Expect(FindKernel("avx512", &why) == nullptr, "avx512 is refused");
  std::printf("%s\n", why.c_str());
  Expect(why ==
             "kernel 'avx512' needs AVX-512 F, BW, DQ, VL, VBMI and VNNI, "
             "which this machine does not have",
         "the sentence says what it needs");
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace deltafin

int main() { return deltafin::Main(); }
