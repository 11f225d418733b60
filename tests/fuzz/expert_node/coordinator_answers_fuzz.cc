// Input: a byte that says what a node met, then the bytes: JoinReply,
// HeartbeatReply or LeaveReply of a coordinator that it joined, a
// HandshakeRequest of one that opens a stream, or a file of its data folder
// (node_id, epoch, read_rate, format). It keeps its pace and its folder, says
// one line of it, and an epoch that it keeps is there after a restart.

#include <cmath>
#include <memory>
#include <span>
#include <string>

#include "common/base/check.h"
#include "common/base/file_io.h"
#include "common/base/random_id.h"
#include "expert_node/data_folder.h"
#include "expert_node/handshake.h"
#include "expert_node/join_answer.h"
#include "proto/protocol_version.h"
#include "tests/fuzz/silence.h"
#include "tests/testing/temp_dir.h"

namespace v1 = deltafin::v1;
using deltafin::DataFolder;
using Bytes = std::span<const uint8_t>;

namespace {

template <typename Message>
bool Parse(Bytes bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void CheckLine(const std::string& text, size_t most) {
  CHECK(text.size() <= most);
  for (const char c : text) {
    CHECK(static_cast<uint8_t>(c) >= ' ' && c != 0x7f);
  }
}

void CheckEpoch(uint64_t epoch) {
  const deltafin::TempDir dir;
  uint64_t kept = 0;
  {
    const auto folder = *DataFolder::Open(dir.path());
    CHECK_OK(folder->KeepEpoch(3));
    const absl::Status status = folder->KeepEpoch(epoch);
    CHECK(status.ok() || absl::IsInvalidArgument(status));
    kept = folder->highest_epoch();
    CHECK(kept == (status.ok() ? std::max<uint64_t>(epoch, 3) : 3));
  }
  CHECK((*DataFolder::Open(dir.path()))->highest_epoch() == kept);
}

void TryJoin(Bytes bytes) {
  v1::JoinReply reply;
  if (!Parse(bytes, &reply)) return;
  const deltafin::JoinedCluster joined = deltafin::ReadJoinReply(reply);
  CheckLine(joined.coordinator, 8);
  CHECK(joined.heartbeat >= absl::Milliseconds(1));
  CHECK(joined.heartbeat <= absl::Minutes(1));
  CheckEpoch(reply.epoch());
}

void TryHeartbeat(Bytes bytes) {
  v1::HeartbeatReply reply;
  if (Parse(bytes, &reply)) CheckEpoch(reply.epoch());
}

// Nothing is read of it.
void TryLeave(Bytes bytes) {
  v1::LeaveReply reply;
  Parse(bytes, &reply);
}

void TryHandshake(Bytes bytes) {
  v1::HandshakeRequest request;
  if (!Parse(bytes, &request)) return;
  v1::HandshakeReply identity;
  identity.set_manifest_digest(std::string(64, 'd'));
  identity.set_wire_version(deltafin::kWireVersion);
  identity.set_numerics_version(deltafin::kNumericsVersion);
  CheckLine(deltafin::NameOfCoordinator(request), 64);
  const absl::Status status = deltafin::CheckHandshake(request, identity);
  const bool agree = request.manifest_digest() == identity.manifest_digest() &&
                     request.wire_version() == identity.wire_version() &&
                     request.numerics_version() == identity.numerics_version();
  CHECK(status.ok() == agree);
  if (agree) return;
  CHECK(absl::IsFailedPrecondition(status));
  CheckLine(std::string(status.message()), 512);
}

void TryFile(const char* name, Bytes bytes) {
  const deltafin::TempDir dir;
  const std::string text(bytes.begin(), bytes.end());
  CHECK_OK(deltafin::WriteFileAtomically(dir.File(name), text));
  const auto folder = DataFolder::Open(dir.path());
  if (!folder.ok()) {
    CHECK(absl::IsDataLoss(folder.status()) ||
          absl::IsInvalidArgument(folder.status()) ||
          absl::IsResourceExhausted(folder.status()));
    CHECK(std::string(folder.status().message()).find(dir.path()) !=
          std::string::npos);
    return;
  }
  CHECK(deltafin::IsRandomId((*folder)->node_id()));
  CHECK((*folder)->highest_epoch() <= uint64_t{1} << 63);
  const double rate = (*folder)->sustained_read();
  CHECK(std::isfinite(rate) && rate >= 0 && rate <= 1e12);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = deltafin::Silence();
  if (size == 0 || !silent) return 0;
  constexpr void (*kTries[])(Bytes) = {
      TryJoin,
      TryHeartbeat,
      TryLeave,
      TryHandshake,
      [](Bytes text) { TryFile("node_id", text); },
      [](Bytes text) { TryFile("epoch", text); },
      [](Bytes text) { TryFile("read_rate", text); },
      [](Bytes text) { TryFile("format", text); }};
  kTries[bytes[0] % std::size(kTries)]({bytes + 1, size - 1});
  return 0;
}
