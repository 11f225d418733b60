// Input: a byte that says which answer a node got that lacks slices, then its
// bytes: FindOwnersReply, NextCopiesReply, or the SliceBytes of an owner, as
// many as there are (tests/fuzz/pieces.h). What a node makes of it stays within
// its model, and no slice counts that is not what its digest says.

#include <google/protobuf/stubs/logging.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "expert_node/peer_answers.h"
#include "expert_node/share_filler.h"
#include "expert_node/storage/share_store.h"
#include "tests/fuzz/pieces.h"
#include "tests/testing/temp_dir.h"

using deltafin::ExpertKey;
using deltafin::ExpertShape;
using deltafin::SlicePeers;
using deltafin::SliceRun;

namespace {

// Layers 1 to 3, 8 experts of three slices, the last one short.
constexpr ExpertShape kShape = {32, 544};
constexpr int kSlices = 3;
constexpr int kAllSlices = 3 * 8 * kSlices;

size_t BytesOf(int slice) {
  return kShape.slice_offset(slice + 1) - kShape.slice_offset(slice);
}

void CheckKey(ExpertKey key, SliceRun run) {
  CHECK(key.layer >= 1 && key.layer <= 3 && key.expert >= 0 && key.expert < 8);
  CHECK(run.first >= 0 && run.count >= 1 && run.first + run.count <= kSlices);
}

// Owners whose every answer is in the input; others give zeros.
class ScriptedPeers : public SlicePeers {
 public:
  explicit ScriptedPeers(std::span<const uint8_t> script) : script_(script) {}

  absl::StatusOr<std::vector<OwnedRun>> FindOwners(ExpertKey key,
                                                   SliceRun run) override {
    CheckKey(key, run);
    return std::vector<OwnedRun>{{run, {"a", "b"}}};
  }
  absl::Status ReadSlices(const std::string& /*owner*/, ExpertKey key,
                          SliceRun run, std::optional<uint64_t> /*budget*/,
                          TakeSlice take) override {
    CheckKey(key, run);
    if (script_.empty()) return GiveZeros(run, take);
    while (!script_.empty()) {
      const auto piece = deltafin::TakePiece(script_);
      deltafin::v1::SliceBytes slice;
      if (!slice.ParseFromArray(piece.data(), static_cast<int>(piece.size()))) {
        return absl::InternalError("no message");
      }
      const absl::Status taken = deltafin::GiveSlice(slice, run, take);
      if (!taken.ok()) return taken;
      taken_.insert_or_assign(
          static_cast<int>(slice.slice()),
          deltafin::Xxh128{slice.xxh3_low(), slice.xxh3_high()});
    }
    return absl::OkStatus();
  }

  // By slice: the digest that came with the one that was taken.
  const std::map<int, deltafin::Xxh128>& taken() const { return taken_; }

 private:
  static absl::Status GiveZeros(SliceRun run, TakeSlice take) {
    for (int slice = run.first; slice < run.first + run.count; ++slice) {
      const std::vector<uint8_t> zeros(BytesOf(slice));
      const absl::Status taken =
          take(slice, zeros, deltafin::Xxh3Digest(zeros));
      if (!taken.ok()) return taken;
    }
    return absl::OkStatus();
  }

  std::span<const uint8_t> script_;
  std::map<int, deltafin::Xxh128> taken_;
};

void TryOwners(std::span<const uint8_t> bytes) {
  deltafin::v1::FindOwnersReply reply;
  if (!reply.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return;
  }
  for (const SliceRun run : {SliceRun{0, 3}, SliceRun{1, 2}, SliceRun{2, 1}}) {
    const auto owned = deltafin::OwnedRunsOf(reply, run);
    if (!owned.ok()) continue;
    int next = run.first;
    for (const SlicePeers::OwnedRun& part : *owned) {
      CHECK(part.run.first == next && part.run.count >= 1);
      CHECK(part.owners.size() <= deltafin::kMaxOwnersOfRun);
      next += part.run.count;
    }
    CHECK(next == run.first + run.count);
  }
}

void TrySlices(std::span<const uint8_t> bytes) {
  ScriptedPeers peers(bytes);
  deltafin::PeerStore store(kShape, peers);
  // Each of its exact size on the heap, so that a write past it is seen.
  std::vector<std::unique_ptr<uint8_t[]>> memory;
  std::vector<uint8_t*> out;
  for (int slice = 0; slice < kSlices; ++slice) {
    memory.push_back(std::make_unique<uint8_t[]>(BytesOf(slice)));
    out.push_back(memory.back().get());
  }
  int num_ready = 0;
  const std::vector<std::string> owners = {"a", "b"};
  const auto read =
      store.ReadFrom({owners}, {1, 2}, {0, kSlices}, out, [&](int slice) {
        CHECK(slice == num_ready);
        ++num_ready;
      });
  CHECK(read.ok() == (num_ready == kSlices));
  CHECK(read.ok() || !read.status().message().empty());
  for (const auto& [slice, digest] : peers.taken()) {
    CHECK(slice < num_ready);
    CHECK(deltafin::Xxh3Digest({out[slice], BytesOf(slice)}) == digest);
  }
}

// Until the filler has worked off the one answer that it gets.
class OneAnswer {
 public:
  explicit OneAnswer(const deltafin::v1::NextCopiesReply& reply)
      : reply_(reply) {}

  absl::StatusOr<deltafin::v1::NextCopiesReply> Ask() {
    deltafin::MutexLock lock(mutex_);
    if (++num_asked_ == 1) return reply_;
    changed_.NotifyAll();
    return absl::UnavailableError("away");
  }
  void WaitUntilDone() {
    deltafin::MutexLock lock(mutex_);
    while (num_asked_ < 2) changed_.Wait(mutex_);
  }

 private:
  const deltafin::v1::NextCopiesReply reply_;
  deltafin::Mutex mutex_;
  deltafin::CondVar changed_;
  int num_asked_ ABSL_GUARDED_BY(mutex_) = 0;
};

void TryCopies(std::span<const uint8_t> bytes) {
  deltafin::v1::NextCopiesReply reply;
  if (!reply.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return;
  }
  // How long it waits is no matter of the bytes.
  reply.clear_bytes_per_second();
  reply.clear_retry_ms();
  const deltafin::TempDir dir;
  ScriptedPeers peers({});
  deltafin::ShareStoreOptions options;
  options.folder = dir.path();
  options.records.reserve_bytes = 0;
  const auto share = deltafin::ShareStore::Open(
      {kShape, 4, 1, 8, std::string(64, 'a')}, options, peers, nullptr);
  CHECK_OK(share.status());
  OneAnswer answer(reply);
  deltafin::ShareFillerOptions filling;
  filling.ask = [&answer](uint32_t /*max_orders*/) { return answer.Ask(); };
  filling.wait_until_idle = [](absl::Time) {};
  filling.retry = absl::ZeroDuration();
  filling.full_retry = absl::ZeroDuration();
  deltafin::ShareFiller filler(**share, filling);
  answer.WaitUntilDone();
  filler.Stop();
  const deltafin::ShareReport report = filler.report();
  CHECK(report.held_slices <= kAllSlices);
  CHECK(report.share_held() >= 0 && report.share_held() <= 1);
}

// What is wrong with bytes is no news here.
bool Silence() {
  spdlog::set_level(spdlog::level::off);
  google::protobuf::SetLogHandler(nullptr);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = Silence();
  if (size == 0 || !silent) return 0;
  const std::span<const uint8_t> answer(bytes + 1, size - 1);
  switch (bytes[0] % 3) {
    case 0:
      TryOwners(answer);
      break;
    case 1:
      TrySlices(answer);
      break;
    default:
      TryCopies(answer);
  }
  return 0;
}
