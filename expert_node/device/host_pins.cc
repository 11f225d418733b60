#include "expert_node/device/host_pins.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/base/thread_affinity.h"

namespace deltafin {
namespace {

constexpr size_t kPageBytes = 4096;

size_t PartBytes(size_t slot_bytes, size_t wanted) {
  const size_t unit = slot_bytes % kPageBytes == 0 ? slot_bytes : kPageBytes;
  return std::max(unit, wanted / unit * unit);
}

}  // namespace

HostPins::HostPins(TieredStore& store, size_t slot_bytes, HostPinner pinner,
                   size_t part_bytes)
    : store_(store),
      memory_(store.memory()),
      part_bytes_(PartBytes(slot_bytes, part_bytes)),
      pinner_(std::move(pinner)),
      parts_((memory_.size() + part_bytes_ - 1) / part_bytes_, Part::kFree),
      has_failed_(!pinner_.pin) {
  store_.SetMemoryHolder(this);
  thread_ = std::thread([this] {
    SetThreadName("expert-pin");
    Loop();
  });
}

HostPins::~HostPins() {
  store_.SetMemoryHolder(nullptr);
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  MutexLock lock(mutex_);
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part] == Part::kPinned) pinner_.unpin(BytesOf(part));
  }
}

// Whole pages: the memory is mapped by pages, whatever its size is.
std::span<uint8_t> HostPins::BytesOf(size_t part) const {
  const size_t begin = part * part_bytes_;
  const size_t bytes = std::min(part_bytes_, memory_.size() - begin);
  return {memory_.data() + begin,
          (bytes + kPageBytes - 1) / kPageBytes * kPageBytes};
}

bool HostPins::Covers(const uint8_t* bytes, size_t size) {
  const size_t begin = bytes - memory_.data();
  const size_t part = begin / part_bytes_;
  if (part != (begin + size - 1) / part_bytes_) return false;
  MutexLock lock(mutex_);
  if (parts_[part] == Part::kPinned) return true;
  if (parts_[part] == Part::kFree && !has_failed_) {
    parts_[part] = Part::kAsked;
    asked_.push_back(part);
    changed_.NotifyAll();
  }
  return false;
}

void HostPins::Loop() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stop_ && asked_.empty()) changed_.Wait(mutex_);
    if (stop_) return;
    const size_t part = asked_.front();
    is_pinning_ = true;
    mutex_.Unlock();
    const absl::Status status = pinner_.pin(BytesOf(part));
    mutex_.Lock();
    is_pinning_ = false;
    asked_.pop_front();
    if (status.ok()) {
      parts_[part] = Part::kPinned;
      pinned_bytes_ += BytesOf(part).size();
    } else {
      for (const size_t other : asked_) parts_[other] = Part::kFree;
      asked_.clear();
      parts_[part] = Part::kFree;
      has_failed_ = true;
      spdlog::warn(
          "{}; slices reach the cards through buffers, which takes longer",
          std::string(status.message()));
    }
    changed_.NotifyAll();
  }
}

// The part at the border may hold slices that are in use: it stays.
std::span<uint8_t> HostPins::LetGo(std::span<uint8_t> tail) {
  const size_t begin = tail.data() - memory_.data();
  const size_t first = (begin + part_bytes_ - 1) / part_bytes_;
  MutexLock lock(mutex_);
  const bool is_border_free =
      begin % part_bytes_ == 0 || parts_[begin / part_bytes_] == Part::kFree;
  // What is being pinned comes to its end first.
  while (is_pinning_ && asked_.front() >= first) changed_.Wait(mutex_);
  std::erase_if(asked_, [&](size_t part) {
    if (part < first) return false;
    parts_[part] = Part::kFree;
    return true;
  });
  for (size_t part = first; part < parts_.size(); ++part) {
    if (parts_[part] != Part::kPinned) continue;
    pinner_.unpin(BytesOf(part));
    pinned_bytes_ -= BytesOf(part).size();
    parts_[part] = Part::kFree;
  }
  if (is_border_free) return tail;
  return tail.subspan(std::min(tail.size(), first * part_bytes_ - begin));
}

uint64_t HostPins::pinned_bytes() const {
  MutexLock lock(mutex_);
  return pinned_bytes_;
}

void HostPins::WaitUntilIdle() {
  MutexLock lock(mutex_);
  while (!asked_.empty()) changed_.Wait(mutex_);
}

}  // namespace deltafin
