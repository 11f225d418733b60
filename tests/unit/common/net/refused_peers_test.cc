#include "common/net/refused_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deltafin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kForeign[] =
    "Handshake failed with fatal error SSL_ERROR_SSL: error:0A000086:SSL "
    "routines::certificate verify failed.";
const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

TEST(RefusedPeersTest, NamesThePeerAndWhy) {
  RefusedPeers peers;
  peers.Connected("10.0.0.7:4711", kNow);
  EXPECT_THAT(peers.LineFor(kForeign, kNow + absl::Seconds(1)),
              AllOf(HasSubstr("refused a connection from 10.0.0.7:4711: its "
                              "certificate has expired, or is of another "
                              "cluster"),
                    HasSubstr("(certificate verify failed)")));
}

TEST(RefusedPeersTest, TellsAReasonThatItDoesNotKnowAsItIs) {
  RefusedPeers peers;
  peers.Connected("10.0.0.7:4711", kNow);
  EXPECT_EQ(peers.LineFor("Handshake failed with fatal error SSL_ERROR_SSL: "
                          "error:0A0000C1:SSL routines::no shared cipher.",
                          kNow),
            "refused a connection from 10.0.0.7:4711: no shared cipher");
}

TEST(RefusedPeersTest, NamesAllThatItCanHaveBeenUpToFour) {
  RefusedPeers peers;
  for (const char* address : {"a:1", "b:2", "c:3", "d:4", "e:5"}) {
    peers.Connected(address, kNow);
  }
  EXPECT_THAT(peers.LineFor(kForeign, kNow),
              AllOf(HasSubstr("from e:5, or of those that connected shortly "
                              "before: d:4, c:3, b:2: "),
                    Not(HasSubstr("a:1"))));
}

TEST(RefusedPeersTest, IsSilentAboutOtherMessagesAndItsOwnCalls) {
  RefusedPeers peers;
  EXPECT_THAT(peers.LineFor(kForeign, kNow), IsEmpty());
  peers.Connected("a:1", kNow);
  EXPECT_THAT(peers.LineFor("Fatal: out of wits", kNow), IsEmpty());
  EXPECT_THAT(peers.LineFor(kForeign, kNow + absl::Seconds(6)), IsEmpty());
}

TEST(RefusedPeersTest, WritesFewLinesAndCountsTheOthers) {
  RefusedPeers peers;
  int lines = 0;
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = kNow + i * absl::Milliseconds(9);
    peers.Connected("a:1", now);
    lines += !peers.LineFor(kForeign, now).empty();
  }
  EXPECT_EQ(lines, 1);
  const absl::Time later = kNow + absl::Seconds(11);
  peers.Connected("a:1", later);
  EXPECT_THAT(peers.LineFor(kForeign, later),
              HasSubstr("(999 more before, not shown)"));
}

}  // namespace
}  // namespace deltafin
