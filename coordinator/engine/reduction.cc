#include "coordinator/engine/reduction.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "common/base/status_macros.h"
#include "kernels/fixed_point.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// The largest magnitude of one fixed-point term (docs/numerics.md section 8).
constexpr int64_t kLargestTerm = (int64_t{1} << 55) - (int64_t{1} << 7);

// A reply's counters stay below this: a terabyte read, twelve days at work.
constexpr uint64_t kLargestCounter = uint64_t{1} << 40;

bool CountersArePlausible(const v1::LayerReply& reply) {
  const v1::LayerTimings& timings = reply.timings();
  return std::max({reply.bytes_read(), timings.queue_us(), timings.read_us(),
                   timings.compute_us()}) < kLargestCounter;
}

// Slices asked for in a row: its sums are at most this many terms.
int64_t NumTerms(const v1::LayerRequest& request, int row) {
  const uint32_t begin = row == 0 ? 0 : request.assignment_end(row - 1);
  int64_t terms = 0;
  for (uint32_t i = begin; i < request.assignment_end(row); ++i) {
    terms += request.num_slices(static_cast<int>(i));
  }
  return terms;
}

// |v| <= bound for all, bound < 2^62: neither bound - v nor v + bound turns
// negative. No compare, so that 64-bit lanes without one can do it.
bool WithinBound(const int64_t* sums, int n, uint64_t bound) {
  uint64_t signs = 0;
  for (int i = 0; i < n; ++i) {
    const auto sum = static_cast<uint64_t>(sums[i]);
    signs |= (bound - sum) | (sum + bound);
  }
  return signs >> 63 == 0;
}

bool WithinTerms(const int64_t* sums, int n, int64_t num_terms) {
  constexpr int64_t kLargestBound = (int64_t{1} << 62) - 1;
  const int64_t bound = num_terms * kLargestTerm;
  if (WithinBound(sums, n, std::min(bound, kLargestBound))) return true;
  return bound > kLargestBound && std::all_of(sums, sums + n, [=](int64_t v) {
           return v <= bound && v >= -bound;
         });
}

bool Contains(const PlannedPart& part, uint32_t expert) {
  const auto& experts = part.request.expert();
  return std::find(experts.begin(), experts.end(), expert) != experts.end();
}

absl::Status NotAnAnswer(std::string_view why) {
  return absl::DataLossError(fmt::format("reply is not an answer: {}", why));
}

}  // namespace

Reduction::Reduction(DispatchPlan& plan, const ElementwiseKernel& kernel,
                     int latent_size)
    : plan_(plan), kernel_(kernel), latent_size_(latent_size) {}

void Reduction::Begin() {
  error_.reset();
  totals_.assign(size_t(plan_.num_tokens()) * latent_size_, 0);
}

absl::StatusOr<ReplyUse> Reduction::Add(int node, const v1::LayerReply& reply) {
  node_refused_ = false;
  ASSIGN_OR_RETURN(const bool open, IsOpen(node, reply));
  if (!open) return ReplyUse::kDropped;
  const PartRef ref = {node, static_cast<int>(reply.part())};
  const PlannedPart& part = plan_.part(ref);
  if (reply.status_code() != 0) {
    RETURN_IF_ERROR(TakeError(node, part, reply));
  } else {
    RETURN_IF_ERROR(CheckRows(part, reply));
    RETURN_IF_ERROR(AddRows(part, reply));
  }
  plan_.MarkAnswered(ref);
  return ReplyUse::kCounted;
}

absl::Status Reduction::status() const {
  if (!error_) return absl::OkStatus();
  return absl::OutOfRangeError(error_->message);
}

// False for a reply to drop.
absl::StatusOr<bool> Reduction::IsOpen(int node,
                                       const v1::LayerReply& reply) const {
  const LayerId& asked = plan_.id();
  const auto asked_at =
      std::tuple(asked.epoch, asked.step, uint64_t(asked.layer));
  const auto replied_at =
      std::tuple(reply.epoch(), reply.step(), uint64_t{reply.layer()});
  if (replied_at < asked_at) return false;
  if (replied_at > asked_at) {
    return NotAnAnswer(fmt::format(
        "it is for epoch {} step {} layer {}, which was not asked yet",
        reply.epoch(), reply.step(), reply.layer()));
  }
  const auto parts = std::as_const(plan_).parts(node);
  if (reply.part() >= parts.size()) {
    return NotAnAnswer(
        fmt::format("part {} of {} parts", reply.part(), parts.size()));
  }
  const PlannedPart& part = parts[reply.part()];
  if (part.sent == absl::InfiniteFuture()) {
    return NotAnAnswer(
        fmt::format("part {}, which was not sent", reply.part()));
  }
  return part.state == PartState::kOpen;
}

absl::Status Reduction::CheckRows(const PlannedPart& part,
                                  const v1::LayerReply& reply) const {
  const size_t num_rows = part.rows.size();
  if (static_cast<size_t>(reply.token_size()) != num_rows) {
    return NotAnAnswer(
        fmt::format("{} rows where {} had work", reply.token_size(), num_rows));
  }
  for (int row = 0; row < reply.token_size(); ++row) {
    if (reply.token(row) != static_cast<uint32_t>(row)) {
      return NotAnAnswer(fmt::format("row {} stands where row {} was expected",
                                     reply.token(row), row));
    }
  }
  const size_t bytes = num_rows * latent_size_ * sizeof(int64_t);
  if (reply.sums().size() != bytes) {
    return NotAnAnswer(fmt::format("sums of {} bytes, expected {}",
                                   reply.sums().size(), bytes));
  }
  if (reply.slices_computed() != part.num_slices) {
    return NotAnAnswer(fmt::format("{} slices computed, {} asked",
                                   reply.slices_computed(), part.num_slices));
  }
  if (!CountersArePlausible(reply)) {
    return NotAnAnswer("a counter of bytes or microseconds is out of range");
  }
  return absl::OkStatus();
}

absl::Status Reduction::AddRows(const PlannedPart& part,
                                const v1::LayerReply& reply) {
  const auto* sums = reinterpret_cast<const int64_t*>(reply.sums().data());
  const int num_rows = static_cast<int>(part.rows.size());
  for (int row = 0; row < num_rows; ++row) {
    const int64_t num_terms = NumTerms(part.request, row);
    if (!WithinTerms(sums + size_t(row) * latent_size_, latent_size_,
                     num_terms)) {
      return NotAnAnswer(fmt::format(
          "row {} holds a sum that {} terms cannot reach", row, num_terms));
    }
  }
  for (int row = 0; row < num_rows; ++row) {
    kernel_.add_fixed(sums + size_t(row) * latent_size_, latent_size_,
                      &totals_[size_t(part.rows[row]) * latent_size_]);
  }
  return absl::OkStatus();
}

absl::Status Reduction::TakeError(int node, const PlannedPart& part,
                                  const v1::LayerReply& reply) {
  if (reply.status_code() >
      static_cast<uint32_t>(absl::StatusCode::kUnauthenticated)) {
    return NotAnAnswer(fmt::format("status code {}", reply.status_code()));
  }
  const auto code = static_cast<absl::StatusCode>(reply.status_code());
  if (code != absl::StatusCode::kOutOfRange) {
    node_refused_ = true;
    return absl::Status(code, reply.status_message());
  }
  if (reply.error_token() >= part.rows.size() ||
      !Contains(part, reply.error_expert())) {
    return NotAnAnswer(fmt::format("an error at row {} expert {}, not asked",
                                   reply.error_token(), reply.error_expert()));
  }
  const ModelError found = {static_cast<int32_t>(reply.error_expert()),
                            part.rows[reply.error_token()], node,
                            reply.status_message()};
  if (!error_ || std::tie(found.expert, found.token, found.node) <
                     std::tie(error_->expert, error_->token, error_->node)) {
    error_ = found;
  }
  return absl::OkStatus();
}

}  // namespace deltafin
