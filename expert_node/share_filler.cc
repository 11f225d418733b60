#include "expert_node/share_filler.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/thread_affinity.h"
#include "expert_node/peer_answers.h"

namespace deltafin {
namespace {

// Whatever the coordinator says, it is asked again after this long.
constexpr absl::Duration kLongestRetry = absl::Minutes(1);

absl::Duration RetryOf(const v1::NextCopiesReply& reply) {
  return std::min(absl::Milliseconds(reply.retry_ms()), kLongestRetry);
}

ExpertKey KeyOf(const v1::CopyOrder& order) {
  return {static_cast<int32_t>(order.layer()),
          static_cast<int32_t>(order.expert())};
}

// What does not fit is outside every model.
SliceRun RunOf(const v1::CopyOrder& order) {
  const uint32_t most = 1 << 20;
  return {static_cast<int>(std::min(order.first_slice(), most)),
          static_cast<int>(std::min(order.num_slices(), most))};
}

}  // namespace

double ShareReport::share_held() const {
  const uint64_t meant = held_slices + missing_slices;
  return meant == 0
             ? 1
             : static_cast<double>(held_slices) / static_cast<double>(meant);
}

std::string_view NameOf(ShareReport::State state) {
  switch (state) {
    case ShareReport::State::kAsking:
      return "asking";
    case ShareReport::State::kFilling:
      return "filling";
    case ShareReport::State::kComplete:
      return "complete";
    case ShareReport::State::kFull:
      return "full";
    case ShareReport::State::kStuck:
      return "stuck";
  }
  return "unknown";
}

ShareFiller::ShareFiller(ShareStore& share, ShareFillerOptions options)
    : share_(share), options_(std::move(options)) {
  thread_ = std::thread([this] {
    SetThreadName("share-filler");
    Loop();
  });
}

ShareFiller::~ShareFiller() {
  Stop();
  thread_.join();
}

void ShareFiller::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

bool ShareFiller::stopped() const {
  MutexLock lock(mutex_);
  return stopped_;
}

bool ShareFiller::WaitUntil(absl::Time time) {
  MutexLock lock(mutex_);
  while (!stopped_ && absl::Now() < time) changed_.WaitUntil(mutex_, time);
  return !stopped_;
}

void ShareFiller::Loop() {
  while (WaitUntil(absl::Now() + Turn())) {
  }
}

absl::Duration ShareFiller::Turn() {
  const absl::StatusOr<v1::NextCopiesReply> reply =
      options_.ask(options_.max_orders);
  if (!reply.ok()) {
    // Not a member yet, or the coordinator is away: membership tells of that.
    spdlog::debug("next copies: {}", reply.status().ToString());
    return options_.retry;
  }
  if (reply->not_planned()) {
    return std::max(options_.retry, RetryOf(*reply));
  }
  pace_.SetBudget(reply->bytes_per_second());
  {
    MutexLock lock(mutex_);
    report_.missing_slices = reply->missing_slices();
  }
  if (reply->orders().empty()) {
    SetState(reply->missing_slices() == 0 ? State::kComplete : State::kStuck);
    return std::max(options_.retry, RetryOf(*reply));
  }
  return Work(*reply);
}

absl::Duration ShareFiller::Work(const v1::NextCopiesReply& reply) {
  int num_copied = 0;
  int num_failed = 0;
  bool is_full = false;
  for (const v1::CopyOrder& order : reply.orders()) {
    const Outcome outcome = Do(order, reply);
    if (outcome == Outcome::kStopped) return absl::ZeroDuration();
    if (outcome == Outcome::kCopied && ++num_copied == 1) {
      SetState(State::kFilling);
    }
    num_failed += outcome == Outcome::kFailed;
    is_full = outcome == Outcome::kFull;
    if (is_full) break;
    LogProgress();
  }
  if (num_copied > 0 && options_.tell_holdings) options_.tell_holdings();
  if (is_full) {
    SetState(State::kFull);
    return options_.full_retry;
  }
  if (num_copied > 0) return absl::ZeroDuration();
  if (num_failed > 0) {
    SetState(State::kStuck);
    return options_.retry;
  }
  // All of it is held: the answer to holdings of a moment ago.
  return std::min(options_.retry, RetryOf(reply));
}

// A piece that fails is the last of its order: the rest is asked for again.
ShareFiller::Outcome ShareFiller::Do(const v1::CopyOrder& order,
                                     const v1::NextCopiesReply& reply) {
  const absl::StatusOr<std::vector<Piece>> pieces = PiecesOf(order);
  if (!pieces.ok()) {
    NoteFailure(pieces.status());
    return Outcome::kFailed;
  }
  Outcome outcome = Outcome::kWasHeld;
  for (const Piece& piece : *pieces) {
    if (share_.records().Holds(piece.key, piece.run)) continue;
    if (!WaitForTurn(piece)) return Outcome::kStopped;
    const Outcome of_piece = DoPiece(piece, reply);
    if (of_piece == Outcome::kFull) return of_piece;
    if (of_piece == Outcome::kFailed) {
      return outcome == Outcome::kCopied ? outcome : of_piece;
    }
    if (of_piece == Outcome::kCopied) outcome = of_piece;
  }
  return outcome;
}

absl::StatusOr<std::vector<ShareFiller::Piece>> ShareFiller::PiecesOf(
    const v1::CopyOrder& order) const {
  const ExpertKey key = KeyOf(order);
  const SliceRun run = RunOf(order);
  RETURN_IF_ERROR(share_.records().CheckName(key, run));
  const ExpertShape& shape = share_.shape();
  int most = run.count;
  if (pace_.budget() > 0) {
    most = options_.piece_slices > 0 ? options_.piece_slices
                                     : share_.slices_per_read();
  }
  std::vector<Piece> pieces;
  for (int first = 0; first < run.count; first += most) {
    const SliceRun part = {run.first + first,
                           std::min(most, run.count - first)};
    pieces.push_back({key, part, FirstOwners(order.owners()),
                      shape.slice_offset(part.first + part.count) -
                          shape.slice_offset(part.first)});
  }
  return pieces;
}

// What fails may have cost as much as what does not.
ShareFiller::Outcome ShareFiller::DoPiece(const Piece& piece,
                                          const v1::NextCopiesReply& reply) {
  const absl::Duration begun = SystemClock().Elapsed();
  pace_.Begin(piece.bytes, begun);
  const absl::StatusOr<uint64_t> bytes = CopyMakingRoom(piece, reply);
  if (!bytes.ok()) {
    NoteFailure(bytes.status());
    return absl::IsResourceExhausted(bytes.status()) ? Outcome::kFull
                                                     : Outcome::kFailed;
  }
  if (*bytes == 0) return Outcome::kWasHeld;
  pace_.Copied(*bytes, begun, SystemClock().Elapsed());
  MutexLock lock(mutex_);
  const uint64_t slices = piece.run.count;
  report_.copied_slices += slices;
  report_.copied_bytes += *bytes;
  report_.missing_slices -= std::min(report_.missing_slices, slices);
  report_.bytes_per_second = pace_.rate();
  return Outcome::kCopied;
}

absl::StatusOr<uint64_t> ShareFiller::CopyMakingRoom(
    const Piece& piece, const v1::NextCopiesReply& reply) {
  if (!MakeRoom(piece.bytes, reply)) {
    return absl::ResourceExhaustedError(fmt::format(
        "{}: no room for more of this node's share: {} bytes are held; raise "
        "--quota, lower --reserve, or free the drive",
        share_.records().folder(), share_.records().stats().held_bytes));
  }
  return share_.Copy(piece.key, piece.run, piece.owners, pace_.budget());
}

bool ShareFiller::MakeRoom(uint64_t bytes, const v1::NextCopiesReply& reply) {
  for (const v1::CopyOrder& surplus : reply.surplus()) {
    if (share_.records().HasRoom(bytes)) return true;
    const ExpertKey key = KeyOf(surplus);
    const SliceRun run = RunOf(surplus);
    if (!share_.records().Holds(key, run)) continue;  // or not of the model
    const absl::Status removed = share_.records().Remove(key, run);
    if (!removed.ok()) NoteFailure(removed);
    MutexLock lock(mutex_);
    report_.removed_slices += run.count;
  }
  return share_.records().HasRoom(bytes);
}

bool ShareFiller::WaitForTurn(const Piece& piece) {
  const absl::Duration pause = pace_.next() - SystemClock().Elapsed();
  if (!WaitUntil(absl::Now() + pause)) return false;
  const absl::Duration most =
      pace_.budget() == 0
          ? options_.longest_wait
          : std::min(options_.longest_wait, pace_.TimeOf(piece.bytes));
  options_.wait_until_idle(absl::Now() + most);
  return !stopped();
}

// Once for each message but the last one again.
void ShareFiller::NoteFailure(const absl::Status& why) {
  const bool is_end = stopped();
  {
    MutexLock lock(mutex_);
    ++report_.failed_copies;
  }
  const std::string message(why.message());
  if (is_end || message == last_error_) return;
  const bool first = std::exchange(last_error_, message).empty();
  spdlog::log(first ? spdlog::level::warn : spdlog::level::debug,
              "copying this node's share: {}; trying on", why.ToString());
}

void ShareFiller::SetState(State state) {
  State before;
  {
    MutexLock lock(mutex_);
    before = std::exchange(report_.state, state);
  }
  if (before == state) return;
  if (state != State::kFull && state != State::kStuck) last_error_.clear();
  const ShareReport now = report();
  switch (state) {
    case State::kComplete:
      spdlog::info("holds its whole share of the model: {} slices",
                   now.held_slices);
      break;
    case State::kFilling:
      next_log_ = absl::InfinitePast();
      break;  // LogProgress tells
    case State::kFull:
      spdlog::warn(
          "no room for {} more slices of this node's share; it serves what it "
          "holds, fetches the rest as it is used, and looks for room every {}",
          now.missing_slices, absl::FormatDuration(options_.full_retry));
      break;
    case State::kStuck:
      spdlog::warn(
          "{} slices of this node's share are missing, and nobody gives them "
          "now; trying on",
          now.missing_slices);
      break;
    case State::kAsking:
      break;
  }
}

void ShareFiller::LogProgress() {
  const absl::Time now = absl::Now();
  if (now < next_log_) return;
  const ShareReport report = this->report();
  if (report.state != State::kFilling) return;
  next_log_ = now + options_.log_every;
  spdlog::info(
      "still filling: holds {} slices, {:.1f} % of its share of the model; {} "
      "are missing, {:.1f} MB/s, {} left",
      report.held_slices, 100 * report.share_held(), report.missing_slices,
      report.bytes_per_second * 1e-6,
      absl::FormatDuration(absl::Trunc(report.left, absl::Seconds(1))));
}

ShareReport ShareFiller::report() const {
  const RecordStoreStats stats = share_.records().stats();
  const double slice_bytes =
      static_cast<double>(share_.shape().payload_bytes()) /
      share_.shape().num_slices();
  MutexLock lock(mutex_);
  ShareReport report = report_;
  report.held_slices = stats.held_slices;
  const double missing = static_cast<double>(report.missing_slices);
  report.left =
      report.missing_slices == 0 ? absl::ZeroDuration()
      : report.bytes_per_second > 0
          ? absl::Seconds(missing * slice_bytes / report.bytes_per_second)
          : absl::InfiniteDuration();
  return report;
}

}  // namespace deltafin
