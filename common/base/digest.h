// common/base/digest.h
//
// The two digests: SHA-256 is the identity of released bytes, XXH3-128 the
// check of every read. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX
struct XXH3_state_s;   // xxHash's XXH3_state_t

namespace deltafin {

// SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::span<const uint8_t> bytes);
  // The digest of all updates as lower-case hex; starts over.
  std::string FinishHex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string Sha256Hex(std::span<const uint8_t> bytes);

struct Xxh128 {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const Xxh128&, const Xxh128&) = default;
};

// XXH3-128, seed 0.
Xxh128 Xxh3Digest(std::span<const uint8_t> bytes);

// The same of bytes that come in pieces; slower where they are small.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;

  void Update(std::span<const uint8_t> bytes);
  // The digest of all updates.
  Xxh128 Digest() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace deltafin
