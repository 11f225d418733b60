// tests/testing/process.h
//
// A child process under test: started with arguments, its output collected,
// its end awaited with a bound. Thread-compatible.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace deltafin::testing {

struct ProcessOptions {
  std::string stdin_text = "";  // given whole, then closed
  std::vector<std::string> environment =
      {};  // "NAME=value", added to the parent's or instead of them
  // File of the network namespace to run in (/run/netns/NAME); needs root.
  // Empty: the parent's.
  std::string network_namespace = "";
};

class Process {
 public:
  // Starts argv[0] (a path). The child dies with the test program.
  static absl::StatusOr<std::unique_ptr<Process>> Start(
      const std::vector<std::string>& argv, const ProcessOptions& options = {});
  // Kills the child if it still runs and waits for it.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const;
  void Signal(int signal_number);

  // Waits until `accept` says true of everything the child wrote so far (to
  // standard output and standard error). Errors: DEADLINE_EXCEEDED, or
  // FAILED_PRECONDITION when the child closed its output first; both quote it.
  absl::Status WaitForOutput(
      const std::function<bool(std::string_view out, std::string_view err)>&
          accept,
      absl::Duration timeout);

  // Waits for the end and returns the exit status, or minus the number of the
  // signal that ended it. Errors: DEADLINE_EXCEEDED (the child goes on).
  absl::StatusOr<int> Wait(absl::Duration timeout);

  std::string out() const;  // standard output so far
  std::string err() const;  // standard error so far

 private:
  Process();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct ProcessResult {
  int exit_code = 0;  // minus the signal's number when one ended it
  std::string out;
  std::string err;
};

// Runs a program to its end. Errors: DEADLINE_EXCEEDED (it is killed).
absl::StatusOr<ProcessResult> RunProcess(const std::vector<std::string>& argv,
                                         absl::Duration timeout,
                                         const ProcessOptions& options = {});

// The programs of this build.
std::string DeltafinBinary();
std::string DeltafinNodeBinary();
// The small model of the source tree.
std::string NanoModelDir();

}  // namespace deltafin::testing
