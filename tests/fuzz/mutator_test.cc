#include "tests/fuzz/mutator.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace deltafin {
namespace {

const std::string kText = R"({"a":{"shape":[12,3],"data_offsets":[0,36]}})";
const std::vector<Bytes> kSeeds = {Bytes(kText.begin(), kText.end()),
                                   Bytes{1, 2, 3}};

TEST(MutatorTest, IsAFunctionOfNumberAndSeeds) {
  for (uint64_t number = 0; number < 100; ++number) {
    EXPECT_EQ(Mutator(number).Mutate(kSeeds), Mutator(number).Mutate(kSeeds));
  }
}

TEST(MutatorTest, MakesManyDifferentInputs) {
  std::set<Bytes> inputs;
  for (uint64_t number = 0; number < 1000; ++number) {
    inputs.insert(Mutator(number).Mutate(kSeeds));
  }
  EXPECT_GT(inputs.size(), 850u);
}

TEST(MutatorTest, PlantsExtremeNumbers) {
  int planted = 0;
  for (uint64_t number = 0; number < 1000; ++number) {
    const Bytes input = Mutator(number).Mutate(kSeeds);
    const std::string text(input.begin(), input.end());
    planted += text.find("18446744073709551616") != std::string::npos;
  }
  EXPECT_GT(planted, 10);
}

TEST(MutatorTest, TakesEmptySeeds) {
  for (uint64_t number = 0; number < 100; ++number) {
    EXPECT_LE(Mutator(number).Mutate({Bytes{}}).size(), 4096u);
  }
}

}  // namespace
}  // namespace deltafin
