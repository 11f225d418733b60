#include "common/net/http_connection_set.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"

namespace deltafin {
namespace {

using Admission = HttpConnectionSet::Admission;
using Wish = HttpConnectionWish;

class HttpConnectionSetTest : public ::testing::Test {
 protected:
  Admission Add(int id) {
    return set_.Add(Id(id),
                    [this, id](Wish wish) { asked_.emplace_back(id, wish); });
  }
  static const void* Id(int id) {
    return reinterpret_cast<const void*>(static_cast<intptr_t>(id));
  }

  HttpConnectionSet set_{3};
  std::vector<std::pair<int, Wish>> asked_;
};

TEST_F(HttpConnectionSetTest, AsksTheLongestIdleToClose) {
  for (const int id : {1, 2, 3}) {
    EXPECT_EQ(Add(id), Admission::kWelcome);
    set_.SetIdle(Id(id), true);
  }
  set_.SetIdle(Id(1), false);
  set_.SetIdle(Id(1), true);
  EXPECT_EQ(Add(4), Admission::kWelcome);
  ASSERT_EQ(asked_.size(), 1);
  EXPECT_EQ(asked_[0], std::pair(2, Wish::kCloseIfIdle));
  // Not the same one again, though it has not left yet.
  EXPECT_EQ(Add(5), Admission::kWelcome);
  EXPECT_EQ(asked_[1], std::pair(3, Wish::kCloseIfIdle));
  EXPECT_EQ(set_.size(), 5);
}

TEST_F(HttpConnectionSetTest, TakesSurplusOnesUpToABound) {
  for (const int id : {1, 2, 3}) Add(id);
  int id = 4;
  while (Add(id) == Admission::kSurplus) ++id;
  EXPECT_EQ(set_.size(), 3 + 64);
  EXPECT_TRUE(asked_.empty());
  EXPECT_FALSE(set_.CloseOneIdle());
  for (int gone = 1; gone < id; ++gone) set_.Remove(Id(gone));
  EXPECT_EQ(Add(1), Admission::kWelcome);
}

TEST_F(HttpConnectionSetTest, WaitsUntilAllHaveLeft) {
  EXPECT_TRUE(set_.AwaitEmpty(absl::InfinitePast()));
  Add(1);
  Add(2);
  set_.AskAll(Wish::kFinish);
  EXPECT_EQ(asked_.size(), 2);
  EXPECT_FALSE(set_.AwaitEmpty(absl::Now()));
  set_.Remove(Id(1));
  set_.Remove(Id(2));
  set_.Remove(Id(2));  // of no effect
  set_.SetIdle(Id(2), true);
  EXPECT_FALSE(set_.CloseOneIdle());
  EXPECT_TRUE(set_.AwaitEmpty(absl::InfiniteFuture()));
}

}  // namespace
}  // namespace deltafin
