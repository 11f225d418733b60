#include "common/base/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "gtest/gtest.h"

namespace deltafin {
namespace {

bool AllZero(const AlignedBuffer& buffer) {
  return std::all_of(buffer.data(), buffer.data() + buffer.size(),
                     [](uint8_t byte) { return byte == 0; });
}

TEST(AlignedBufferTest, StartsOnAPageFilledWithZeros) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{5000}}) {
    auto buffer = AlignedBuffer::Allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 4096, 0u);
    EXPECT_TRUE(AllZero(*buffer));
  }
}

TEST(AlignedBufferTest, StartsOnAHugePageWhenLarge) {
  constexpr size_t kBytes = (size_t{5} << 20) + 3;
  auto buffer = AlignedBuffer::Allocate(kBytes);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % (2 << 20), 0u);
  std::fill(buffer->bytes().begin(), buffer->bytes().end(), uint8_t{7});
  EXPECT_EQ(buffer->data()[kBytes - 1], 7);
}

TEST(AlignedBufferTest, HoldsNothingWhenEmpty) {
  auto buffer = AlignedBuffer::Allocate(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->size(), 0u);
  EXPECT_EQ(buffer->data(), nullptr);
}

TEST(AlignedBufferTest, RefusesWhatNoMachineHas) {
  const auto buffer = AlignedBuffer::Allocate(~size_t{0});
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(buffer.status().message().find("18446744073709551615"),
            absl::string_view::npos);
}

TEST(AlignedBufferTest, MovesItsMemory) {
  auto first = AlignedBuffer::Allocate(100);
  ASSERT_TRUE(first.ok());
  first->data()[99] = 42;
  AlignedBuffer second = *std::move(first);
  EXPECT_EQ(second.data()[99], 42);
  AlignedBuffer third;
  third = std::move(second);
  EXPECT_EQ(third.size(), 100u);
  EXPECT_EQ(third.data()[99], 42);
}

}  // namespace
}  // namespace deltafin
