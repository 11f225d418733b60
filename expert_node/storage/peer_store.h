// expert_node/storage/peer_store.h
//
// Slices from the other machines of the cluster: who has them now is asked
// anew for each read, so that nothing here is out of date. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/digest.h"
#include "expert_node/storage/expert_store.h"

namespace deltafin {

// How the other machines are reached. Thread-safe; calls block on the network.
class SlicePeers {
 public:
  struct OwnedRun {
    SliceRun run;
    std::vector<std::string> owners;  // best first; empty: nobody has it
  };
  // Tells of one slice as the owner sent it. An error ends the call with it.
  using TakeSlice = absl::FunctionRef<absl::Status(
      int slice, std::span<const uint8_t> bytes, const Xxh128& digest)>;

  virtual ~SlicePeers() = default;

  // Runs that cover `run`, ascending. Errors: of the call.
  virtual absl::StatusOr<std::vector<OwnedRun>> FindOwners(ExpertKey key,
                                                           SliceRun run) = 0;
  // `copy_budget`: absent where a layer waits for the run; else it is a copy,
  // for which the owner may let the caller wait, and this the bytes a second
  // within which the cluster copies, 0 without a bound. Errors: those of the
  // owner (NOT_FOUND: it has not all of the run), of the connection, and of
  // `take`.
  virtual absl::Status ReadSlices(const std::string& owner, ExpertKey key,
                                  SliceRun run,
                                  std::optional<uint64_t> copy_budget,
                                  TakeSlice take) = 0;
};

// Whom to ask for slices, one after the other, and what for: see ReadSlices.
struct SliceOwners {
  std::span<const std::string> owners;
  std::optional<uint64_t> copy_budget = std::nullopt;
};

class PeerStore : public ExpertStore {
 public:
  // `peers` must outlive the store.
  PeerStore(const ExpertShape& shape, SlicePeers& peers)
      : shape_(shape), peers_(peers) {}

  const ExpertShape& shape() const override { return shape_; }
  bool IsNear(ExpertKey, SliceRun) const override { return false; }
  uint64_t HeldMask(ExpertKey) const override { return 0; }

  // Slices become ready in ascending order. Every one is compared with its
  // digest and looked through for NaN scales; an owner that fails in any way is
  // followed by the next, from the first slice that is not ready on. Errors:
  // NOT_FOUND when nobody has some of the run; UNAVAILABLE naming the last
  // owner and its error when all failed; those of FindOwners.
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override;

  // The same from owners that are known.
  absl::StatusOr<uint64_t> ReadFrom(const SliceOwners& from, ExpertKey key,
                                    SliceRun run, std::span<uint8_t* const> out,
                                    absl::FunctionRef<void(int slice)> ready);

  // Since the start.
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t failed_owners() const { return failed_owners_; }

 private:
  // Checks one slice and copies it to `out`.
  absl::Status Take(int slice, std::span<const uint8_t> bytes,
                    const Xxh128& digest, uint8_t* out);

  const ExpertShape shape_;
  SlicePeers& peers_;
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<uint64_t> failed_owners_{0};
};

}  // namespace deltafin
