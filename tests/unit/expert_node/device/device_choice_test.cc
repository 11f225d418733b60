#include "expert_node/device/device_choice.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

using Cards = std::vector<int>;

TEST(DeviceChoiceTest, ReadsTheCardsOfAText) {
  EXPECT_EQ(*ParseDevice(""), Cards());
  EXPECT_EQ(*ParseDevice("cpu"), Cards());
  EXPECT_EQ(*ParseDevice("cuda"), Cards({0}));
  EXPECT_EQ(*ParseDevice("cuda:3"), Cards({3}));
  EXPECT_EQ(*ParseDevice("cuda:2,0,63"), Cards({2, 0, 63}));
}

TEST(DeviceChoiceTest, RefusesAnythingElseAndNamesIt) {
  for (const char* text :
       {"gpu", "CUDA", "cuda0", "cuda:", "cuda:,", "cuda:1,", "cuda:,1",
        "cuda:1,1", "cuda:-1", "cuda:64", "cuda:1;2", "cuda:1 ", "cuda 1",
        "cuda:99999999999", "cuda,1", "cud"}) {
    const auto cards = ParseDevice(text);
    ASSERT_FALSE(cards.ok()) << text;
    EXPECT_EQ(cards.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(cards.status().message())
                  .find(std::string("'") + text + "': want cpu, cuda"),
              std::string::npos)
        << cards.status();
  }
}

}  // namespace
}  // namespace deltafin
