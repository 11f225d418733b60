#include "expert_node/handshake.h"

#include <gtest/gtest.h>

#include <functional>

namespace deltafin {
namespace {

v1::HandshakeReply Identity() {
  v1::HandshakeReply identity;
  identity.set_manifest_digest("aa11");
  identity.set_wire_version(1);
  identity.set_numerics_version(1);
  return identity;
}

v1::HandshakeRequest Matching() {
  v1::HandshakeRequest request;
  request.set_manifest_digest("aa11");
  request.set_wire_version(1);
  request.set_numerics_version(1);
  return request;
}

TEST(HandshakeTest, AcceptsTheSameModelWireAndNumerics) {
  EXPECT_TRUE(CheckHandshake(Matching(), Identity()).ok());
}

TEST(HandshakeTest, NamesWhatDiffersBothValuesAndWhatToDo) {
  const std::pair<std::function<void(v1::HandshakeRequest&)>, const char*>
      cases[] = {
          {[](auto& r) { r.set_wire_version(2); },
           "the wire version differs: the coordinator has 2, this node has 1; "
           "install the same deltafin version on both"},
          {[](auto& r) { r.set_numerics_version(3); },
           "the numerics version differs: the coordinator has 3, this node has "
           "1; install the same deltafin version on both"},
          {[](auto& r) { r.set_manifest_digest("bb22"); },
           "the model (manifest SHA-256) differs: the coordinator has bb22, "
           "this node has aa11; start both with the same model files"},
      };
  for (const auto& [change, message] : cases) {
    v1::HandshakeRequest request = Matching();
    change(request);
    EXPECT_EQ(CheckHandshake(request, Identity()),
              absl::FailedPreconditionError(message));
  }
}

TEST(HandshakeTest, WordsOfACoordinatorAreOneShortLine) {
  v1::HandshakeRequest request = Matching();
  request.set_coordinator("desk\nforged\x1b[2J" + std::string(1000, 'x'));
  const std::string name = NameOfCoordinator(request);
  EXPECT_EQ(name.substr(0, 16), "desk?forged?[2Jx");
  EXPECT_EQ(name.size(), 64u);
  request.set_manifest_digest("\x1b" + std::string(1 << 20, 'x'));
  const absl::Status status = CheckHandshake(request, Identity());
  EXPECT_LT(status.message().size(), 300u);
  EXPECT_NE(status.message().find("has ?xxx"), absl::string_view::npos);
}

}  // namespace
}  // namespace deltafin
