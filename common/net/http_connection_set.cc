#include "common/net/http_connection_set.h"

#include <utility>

namespace deltafin {
namespace {

// Beyond the limit, while they are told so.
constexpr size_t kMaxSurplus = 64;

}  // namespace

HttpConnectionSet::HttpConnectionSet(int max_connections)
    : max_connections_(static_cast<size_t>(max_connections)) {}

HttpConnectionSet::Admission HttpConnectionSet::Add(const void* id, Ask ask) {
  MutexLock lock(mutex_);
  Admission admission = Admission::kWelcome;
  if (entries_.size() >= max_connections_ && !CloseOneIdleLocked()) {
    admission = Admission::kSurplus;
  }
  if (entries_.size() >= max_connections_ + kMaxSurplus) {
    return Admission::kRefused;
  }
  entries_.emplace(id, Entry{std::move(ask), idle_.end()});
  return admission;
}

void HttpConnectionSet::SetIdle(const void* id, bool is_idle) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  auto& place = found->second.idle;
  if (is_idle == (place != idle_.end())) return;
  if (is_idle) {
    place = idle_.insert(idle_.end(), id);
  } else {
    idle_.erase(place);
    place = idle_.end();
  }
}

void HttpConnectionSet::Remove(const void* id) {
  Ask dropped;  // not under the lock: it may hold the connection
  MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  if (found->second.idle != idle_.end()) idle_.erase(found->second.idle);
  dropped = std::move(found->second.ask);
  entries_.erase(found);
  if (entries_.empty()) is_empty_.NotifyAll();
}

bool HttpConnectionSet::CloseOneIdleLocked() {
  if (idle_.empty()) return false;
  Entry& entry = entries_.at(idle_.front());
  // No other new one shall count on its place.
  idle_.pop_front();
  entry.idle = idle_.end();
  entry.ask(HttpConnectionWish::kCloseIfIdle);
  return true;
}

bool HttpConnectionSet::CloseOneIdle() {
  MutexLock lock(mutex_);
  return CloseOneIdleLocked();
}

void HttpConnectionSet::AskAll(HttpConnectionWish wish) {
  MutexLock lock(mutex_);
  for (const auto& [id, entry] : entries_) entry.ask(wish);
}

bool HttpConnectionSet::AwaitEmpty(absl::Time deadline) {
  MutexLock lock(mutex_);
  while (!entries_.empty()) {
    if (!is_empty_.WaitUntil(mutex_, deadline)) return entries_.empty();
  }
  return true;
}

size_t HttpConnectionSet::size() const {
  MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace deltafin
