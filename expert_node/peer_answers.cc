#include "expert_node/peer_answers.h"

#include <algorithm>

#include "spdlog/fmt/fmt.h"

namespace deltafin {

std::vector<std::string> FirstOwners(
    const google::protobuf::RepeatedPtrField<std::string>& owners) {
  const int count = std::min(owners.size(), kMaxOwnersOfRun);
  return {owners.begin(), owners.begin() + count};
}

absl::StatusOr<std::vector<SlicePeers::OwnedRun>> OwnedRunsOf(
    const v1::FindOwnersReply& reply, SliceRun run) {
  std::vector<SlicePeers::OwnedRun> owned;
  uint32_t next = run.first;
  const uint32_t end = run.first + run.count;
  for (const v1::CopyOrder& part : reply.runs()) {
    if (part.first_slice() != next || part.num_slices() == 0 ||
        part.num_slices() > end - next) {
      break;
    }
    next += part.num_slices();
    owned.push_back({{static_cast<int>(part.first_slice()),
                      static_cast<int>(part.num_slices())},
                     FirstOwners(part.owners())});
  }
  if (next == end) return owned;
  return absl::InternalError(
      fmt::format("the coordinator tells owners of slices {} to {} alone",
                  run.first, static_cast<int>(next) - 1));
}

absl::Status GiveSlice(const v1::SliceBytes& slice, SliceRun run,
                       SlicePeers::TakeSlice take) {
  const uint32_t first = run.first;
  if (slice.slice() < first ||
      slice.slice() - first >= static_cast<uint32_t>(run.count)) {
    return absl::DataLossError(
        fmt::format("slice {} was not asked for", slice.slice()));
  }
  const std::string& data = slice.data();
  return take(static_cast<int>(slice.slice()),
              {reinterpret_cast<const uint8_t*>(data.data()), data.size()},
              {slice.xxh3_low(), slice.xxh3_high()});
}

}  // namespace deltafin
