#include "common/base/digest.h"

#include <openssl/evp.h>

#include "common/base/check.h"
#include "spdlog/fmt/fmt.h"
#if defined(__x86_64__)
#include "xxh_x86dispatch.h"  // the widest vectors that this machine has
#else
#define XXH_INLINE_ALL
#include "xxhash.h"
#endif

namespace deltafin {

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ != nullptr);
  CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::span<const uint8_t> bytes) {
  CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::FinishHex() {
  std::array<uint8_t, 32> digest;
  unsigned int length = 0;
  CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1);
  CHECK(length == digest.size());
  CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  std::string hex;
  for (const uint8_t byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string Sha256Hex(std::span<const uint8_t> bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.FinishHex();
}

Xxh128 Xxh3Digest(std::span<const uint8_t> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

void Xxh3::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  CHECK(state_ != nullptr);
  XXH3_128bits_reset(state_.get());
}

Xxh3::~Xxh3() = default;

void Xxh3::Update(std::span<const uint8_t> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

Xxh128 Xxh3::Digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return {hash.low64, hash.high64};
}

}  // namespace deltafin
