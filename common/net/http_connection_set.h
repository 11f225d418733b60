// common/net/http_connection_set.h
//
// The open connections of an HTTP server: how many there may be, which of them
// gives way to a new one, and how all of them end. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <unordered_map>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace deltafin {

// What the server wants of a connection.
enum class HttpConnectionWish : uint8_t {
  kCloseIfIdle,
  kFinish,  // close now, or after the answer that is under way
  kAbort,
};

class HttpConnectionSet {
 public:
  enum class Admission : uint8_t {
    kWelcome,
    kSurplus,  // it is told so and closed
    kRefused,  // there are too many even of those; it was not added
  };
  using Ask = std::function<void(HttpConnectionWish)>;

  explicit HttpConnectionSet(int max_connections);

  // `id` is any that no other has. `ask` is called by any thread and under the
  // lock: it must only leave word. At the limit the connection that has been
  // idle for longest, with no or half a request, is asked to close.
  Admission Add(const void* id, Ask ask);
  // Does nothing for one that is not there.
  void SetIdle(const void* id, bool is_idle);
  void Remove(const void* id);

  // Asks the one that has been idle for longest to close; false: none is idle.
  bool CloseOneIdle();
  void AskAll(HttpConnectionWish wish);
  // Blocks. False when the deadline passed first.
  bool AwaitEmpty(absl::Time deadline);
  size_t size() const;

 private:
  struct Entry {
    Ask ask;
    std::list<const void*>::iterator idle;  // end: it is not
  };

  bool CloseOneIdleLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_connections_;
  mutable Mutex mutex_;
  CondVar is_empty_;
  std::unordered_map<const void*, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::list<const void*> idle_ ABSL_GUARDED_BY(mutex_);  // longest first
};

}  // namespace deltafin
