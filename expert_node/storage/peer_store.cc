#include "expert_node/storage/peer_store.h"

#include <cstring>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/slice_check.h"

namespace deltafin {
namespace {

std::string NameOf(ExpertKey key, SliceRun run) {
  return fmt::format("layer {} expert {} slices {}+{}", key.layer, key.expert,
                     run.first, run.count);
}

}  // namespace

absl::StatusOr<uint64_t> PeerStore::Read(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int slice)> ready) {
  const auto owned = peers_.FindOwners(key, run);
  if (!owned.ok()) return AddContext(owned.status(), NameOf(key, run));
  uint64_t bytes = 0;
  for (const SlicePeers::OwnedRun& part : *owned) {
    ASSIGN_OR_RETURN(
        const uint64_t part_bytes,
        ReadFrom({part.owners}, key, part.run,
                 out.subspan(part.run.first - run.first, part.run.count),
                 ready));
    bytes += part_bytes;
  }
  return bytes;
}

absl::StatusOr<uint64_t> PeerStore::ReadFrom(
    const SliceOwners& from, ExpertKey key, SliceRun run,
    std::span<uint8_t* const> out, absl::FunctionRef<void(int slice)> ready) {
  if (from.owners.empty()) {
    return absl::NotFoundError(NameOf(key, run) +
                               ": no machine of the cluster has it");
  }
  uint64_t total = 0;
  int done = 0;
  absl::Status last;
  for (const std::string& owner : from.owners) {
    last = peers_.ReadSlices(
        owner, key, {run.first + done, run.count - done}, from.copy_budget,
        [&](int slice, std::span<const uint8_t> bytes,
            const Xxh128& digest) -> absl::Status {
          if (done == run.count || slice != run.first + done) {
            return absl::DataLossError(
                fmt::format("slice {} came out of order", slice));
          }
          RETURN_IF_ERROR(Take(slice, bytes, digest, out[done]));
          total += bytes.size();
          ++done;
          ready(slice);
          return absl::OkStatus();
        });
    if (done == run.count) return total;
    if (last.ok()) last = absl::DataLossError("slices are missing");
    ++failed_owners_;
    last = AddContext(last, "from " + owner);
    spdlog::debug("{}: {}", NameOf(key, run), last.ToString());
  }
  return absl::UnavailableError(fmt::format(
      "{}: none of {} owners gave it; the last: {}", NameOf(key, run),
      from.owners.size(), std::string(last.message())));
}

absl::Status PeerStore::Take(int slice, std::span<const uint8_t> bytes,
                             const Xxh128& digest, uint8_t* out) {
  const size_t want =
      shape_.slice_offset(slice + 1) - shape_.slice_offset(slice);
  if (bytes.size() != want) {
    return absl::DataLossError(fmt::format("slice {} has {} bytes, want {}",
                                           slice, bytes.size(), want));
  }
  RETURN_IF_ERROR(AddContext(CheckSlice(shape_, slice, bytes.data(), digest),
                             fmt::format("slice {}", slice)));
  std::memcpy(out, bytes.data(), bytes.size());
  bytes_read_ += bytes.size();
  return absl::OkStatus();
}

}  // namespace deltafin
