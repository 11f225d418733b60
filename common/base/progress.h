// common/base/progress.h
//
// A progress line on a terminal: part done, rate, time left. Silent where the
// stream is no terminal. Thread-compatible.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "common/base/clock.h"

namespace deltafin {

// "label  42%  1.20 GiB of 2.86 GiB  512 MiB/s  0:03 left". Rate and time left
// are omitted before anything is done.
std::string ProgressLine(const std::string& label, uint64_t done_bytes,
                         uint64_t total_bytes, absl::Duration elapsed);

class Progress {
 public:
  // `clock` must outlive the object.
  Progress(std::string label, std::FILE* stream = stderr,
           const Clock& clock = SystemClock());
  // Ends the line if one was begun.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void SetLabel(std::string label) { label_ = std::move(label); }

  // Redraws at most ten times a second, and always when all is done.
  void Update(uint64_t done_bytes, uint64_t total_bytes);

 private:
  std::string label_;
  std::FILE* const stream_;
  const Clock& clock_;
  const bool is_terminal_;
  const absl::Duration start_;
  absl::Duration last_draw_ = -absl::InfiniteDuration();
  bool drawn_ = false;
};

}  // namespace deltafin
