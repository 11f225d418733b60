#include "expert_node/storage/peer_store.h"

#include <gmock/gmock.h>

#include "tests/unit/expert_node/storage/fake_peers.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Change = FakePeers::Change;

constexpr ExpertKey kKey = {2, 3};
constexpr SliceRun kAll = {0, 3};

class PeerStoreTest : public ::testing::Test {
 protected:
  void HaveOwners(const std::vector<std::string>& owners) {
    peers_.set_owners([owners](ExpertKey, SliceRun run) {
      return std::vector<SlicePeers::OwnedRun>{{run, owners}};
    });
  }
  void ExpectGood(SliceRun run) {
    const ReadResult got = ReadRun(store_, kKey, run);
    ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
    EXPECT_TRUE(got.ready == PackedSlices(kRaggedShape, kKey, run));
  }

  FakePeers peers_{kRaggedShape};
  PeerStore store_{kRaggedShape, peers_};
};

TEST_F(PeerStoreTest, ReadsEachPartFromWhoHasIt) {
  peers_.set_owners([](ExpertKey, SliceRun) {
    return std::vector<SlicePeers::OwnedRun>{{{0, 1}, {"a"}}, {{1, 2}, {"b"}}};
  });
  ExpectGood(kAll);
  EXPECT_THAT(peers_.reads(), ElementsAre("a 0+1", "b 1+2"));
  EXPECT_EQ(store_.bytes_read(), kRaggedShape.payload_bytes());
  EXPECT_EQ(store_.failed_owners(), 0u);
}

TEST_F(PeerStoreTest, GoesOnWithTheNextOwnerWhereTheLastOneEnded) {
  HaveOwners({"a", "b"});
  peers_.Fail("a", absl::UnavailableError("gone"), /*after=*/2);
  ExpectGood(kAll);
  EXPECT_THAT(peers_.reads(), ElementsAre("a 0+3", "b 2+1"));
  EXPECT_EQ(store_.failed_owners(), 1u);
}

TEST_F(PeerStoreTest, BelievesNoOwner) {
  for (const Change change :
       {Change::kAfterDigest, Change::kNanScale, Change::kShort}) {
    HaveOwners({"bad", "good"});
    peers_.Tamper("bad", change);
    ExpectGood(kAll);
    HaveOwners({"bad"});
    const ReadResult got = ReadRun(store_, kKey, kAll);
    EXPECT_TRUE(absl::IsUnavailable(got.bytes.status())) << got.bytes.status();
    EXPECT_THAT(got.ready, ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
  }
}

TEST_F(PeerStoreTest, TellsWhoFailedLastAndWhy) {
  HaveOwners({"a", "b"});
  peers_.Fail("a", absl::NotFoundError("removed"));
  peers_.Fail("b", absl::DataLossError("the drive"));
  const absl::Status status = ReadRun(store_, kKey, kAll).bytes.status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("layer 2 expert 3 slices 0+3"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("from b: the drive"));
}

TEST_F(PeerStoreTest, WhatNobodyHasIsNotFound) {
  HaveOwners({});
  const absl::Status status = ReadRun(store_, kKey, kAll).bytes.status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(peers_.reads(), IsEmpty());
}

}  // namespace
}  // namespace deltafin
