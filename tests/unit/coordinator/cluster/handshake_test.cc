#include "coordinator/cluster/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/protocol_version.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

const v1::HandshakeRequest kOurs = MakeHandshake({std::string(64, 'd'), "c"});

v1::HandshakeReply Matching() {
  v1::HandshakeReply theirs;
  theirs.set_node_id("n");
  theirs.set_manifest_digest(std::string(64, 'd'));
  theirs.set_wire_version(kWireVersion);
  theirs.set_numerics_version(kNumericsVersion);
  theirs.set_kernel("avx2");
  theirs.set_version("1.2.3");
  return theirs;
}

TEST(NodeIdentityTest, TakesANodeOfTheSameModelAndNamesWhatDiffers) {
  EXPECT_TRUE(CheckNodeIdentity(kOurs, Matching()).ok());
  v1::HandshakeReply other = Matching();
  other.set_numerics_version(7);
  const absl::Status status = CheckNodeIdentity(kOurs, other);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the node has 7"));
}

TEST(NodeIdentityTest, RefusesWordsThatATerminalWouldObey) {
  const auto refused = [](auto change) {
    v1::HandshakeReply theirs = Matching();
    change(theirs);
    const absl::Status status = CheckNodeIdentity(kOurs, theirs);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused([](auto& r) { r.set_kernel("\x1b[2J"); }),
              HasSubstr("identity.kernel of 4 bytes"));
  EXPECT_THAT(refused([](auto& r) { r.set_node_id("a\nb"); }),
              HasSubstr("identity.node_id"));
  EXPECT_THAT(refused([](auto& r) { r.set_version(std::string(65, '1')); }),
              HasSubstr("identity.version of 65 bytes: want 0 to 64"));
  EXPECT_THAT(refused([](auto& r) { r.set_manifest_digest("\xc2\x9b"); }),
              HasSubstr("identity.manifest_digest"));
}

}  // namespace
}  // namespace deltafin
