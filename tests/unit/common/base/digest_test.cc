#include "common/base/digest.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace deltafin {
namespace {

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(Sha256Test, AgreesWithFips180Examples) {
  EXPECT_EQ(Sha256Hex({}),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex(Bytes("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i);
  Sha256 sha;
  for (size_t at = 0; at < text.size(); at += 37) {
    sha.Update(Bytes(text.substr(at, 37)));
  }
  EXPECT_EQ(sha.FinishHex(), Sha256Hex(Bytes(text)));
}

TEST(Sha256Test, StartsOverAfterFinish) {
  Sha256 sha;
  sha.Update(Bytes("something else"));
  sha.FinishHex();
  sha.Update(Bytes("abc"));
  EXPECT_EQ(sha.FinishHex(), Sha256Hex(Bytes("abc")));
}

TEST(Xxh3Test, AgreesWithTheReferenceValueOfNoBytes) {
  const Xxh128 digest = Xxh3Digest({});
  EXPECT_EQ(digest.high, 0x99aa06d3014798d8u);
  EXPECT_EQ(digest.low, 0x6001c324468d497fu);
}

TEST(Xxh3Test, SeesOneChangedBit) {
  std::vector<uint8_t> bytes(100'000, 5);
  const Xxh128 before = Xxh3Digest(bytes);
  bytes[77'777] ^= 1;
  EXPECT_FALSE(Xxh3Digest(bytes) == before);
}

TEST(Xxh3Test, DoesNotDependOnThePieces) {
  std::vector<uint8_t> bytes(100'003);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = i * 31 % 251;
  for (const size_t piece : {size_t{1}, size_t{63}, size_t{4096}}) {
    Xxh3 hash;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      hash.Update(
          std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
    EXPECT_EQ(hash.Digest(), Xxh3Digest(bytes)) << piece;
  }
  EXPECT_EQ(Xxh3().Digest(), Xxh3Digest({}));
}

}  // namespace
}  // namespace deltafin
