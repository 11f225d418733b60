// expert_node/share_filler.h
//
// Brings a node's share of the model to its drive, on a thread of its own: asks
// the coordinator what is missing and who has it, again and again, and copies
// run by run, and within a budget piece by piece, while no layer waits. Nothing
// is remembered between starts but what is on the drive. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "expert_node/copy_pace.h"
#include "expert_node/storage/share_store.h"
#include "proto/cluster.pb.h"

namespace deltafin {

struct ShareFillerOptions {
  // Asks the coordinator (ClusterService.NextCopies). Errors: the call's.
  std::function<absl::StatusOr<v1::NextCopiesReply>(uint32_t max_orders)> ask;
  // Blocks until the node has no layer request, at most until the deadline.
  std::function<void(absl::Time deadline)> wait_until_idle;
  // What was copied is worth telling the coordinator now. May be empty.
  std::function<void()> tell_holdings;

  uint32_t max_orders = 128;  // of one question, 1 to 256
  // With a budget a run is copied in pieces of so many slices, so that a layer
  // meets no more of it than its share. 0: as many as one read of the drive
  // takes (ExpertStore::slices_per_read).
  int piece_slices = 0;
  // Work goes before copying, but copying goes on: what is to be copied is
  // begun after this long at the latest, and a piece after its time in the
  // budget.
  absl::Duration longest_wait = absl::Seconds(1);
  // Between questions when nothing can be done just now.
  absl::Duration retry = absl::Seconds(1);
  // The same when there is no room on the drive.
  absl::Duration full_retry = absl::Seconds(30);
  absl::Duration log_every = absl::Minutes(1);
};

struct ShareReport {
  enum class State : uint8_t {
    kAsking,  // the coordinator has not answered yet
    kFilling,
    kComplete,  // holds all that it is meant to hold
    kFull,      // no room for more
    kStuck,     // nobody gives what is missing
  };
  State state = State::kAsking;
  uint64_t held_slices = 0;
  uint64_t missing_slices = 0;  // as the coordinator last said
  uint64_t copied_slices = 0;   // since the start
  uint64_t copied_bytes = 0;
  uint64_t failed_copies = 0;
  uint64_t removed_slices = 0;  // to make room
  double bytes_per_second = 0;
  absl::Duration left;  // at this rate; infinite where there is none

  // Of what the node is meant to hold; 1 where that is nothing.
  double share_held() const;
};

std::string_view NameOf(ShareReport::State state);

class ShareFiller {
 public:
  // Begins at once. `share` must outlive this.
  ShareFiller(ShareStore& share, ShareFillerOptions options);
  // Waits for a copy that is under way.
  ~ShareFiller();
  // Begins no more copies. Does not wait.
  void Stop();
  ShareFiller(const ShareFiller&) = delete;
  ShareFiller& operator=(const ShareFiller&) = delete;

  ShareReport report() const;

 private:
  using State = ShareReport::State;
  enum class Outcome : uint8_t { kCopied, kWasHeld, kFailed, kFull, kStopped };
  // What is copied at once.
  struct Piece {
    ExpertKey key;
    SliceRun run;
    std::vector<std::string> owners;
    uint64_t bytes = 0;
  };

  void Loop();
  // One question and its orders; returns how long to wait for the next.
  absl::Duration Turn();
  absl::Duration Work(const v1::NextCopiesReply& reply);
  Outcome Do(const v1::CopyOrder& order, const v1::NextCopiesReply& reply);
  // Errors: INVALID_ARGUMENT for an order outside the model.
  absl::StatusOr<std::vector<Piece>> PiecesOf(const v1::CopyOrder& order) const;
  Outcome DoPiece(const Piece& piece, const v1::NextCopiesReply& reply);
  absl::StatusOr<uint64_t> CopyMakingRoom(const Piece& piece,
                                          const v1::NextCopiesReply& reply);
  // Removes surplus until there is room for `bytes`; false when there is none.
  bool MakeRoom(uint64_t bytes, const v1::NextCopiesReply& reply);
  void NoteFailure(const absl::Status& why);
  void SetState(State state);
  void LogProgress();
  // False when stopped.
  bool WaitUntil(absl::Time time);
  bool WaitForTurn(const Piece& piece);
  bool stopped() const;

  ShareStore& share_;
  const ShareFillerOptions options_;
  // Of the thread.
  CopyPace pace_;
  std::string last_error_;  // logged
  absl::Time next_log_ = absl::InfinitePast();

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  ShareReport report_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace deltafin
