#include "tests/testing/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"

extern char** environ;

namespace deltafin::testing {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) {
    pointers.push_back(const_cast<char*>(s.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::string_view NameOf(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

// `added`, and the parent's variables of other names.
std::vector<std::string> Environment(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const auto has_name = [&](const std::string& other) {
      return NameOf(other) == NameOf(*entry);
    };
    if (std::ranges::none_of(added, has_name)) all.emplace_back(*entry);
  }
  return all;
}

// A pipe whose ends close on exec.
struct Pipe {
  std::array<int, 2> ends{-1, -1};
  bool Open() { return pipe2(ends.data(), O_CLOEXEC) == 0; }
  int read_end() const { return ends[0]; }
  int write_end() const { return ends[1]; }
};

// In the child: only async-signal-safe calls.
void EnterNamespace(const char* path) {
  const int space = open(path, O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) _exit(126);
}

}  // namespace

struct Process::Impl {
  pid_t pid = -1;
  std::optional<int> exit_code;
  int out_fd = -1;
  int err_fd = -1;
  int in_fd = -1;  // closed by the reader once all is written
  std::string stdin_text;

  mutable Mutex mutex;
  CondVar changed;
  std::string out ABSL_GUARDED_BY(mutex);
  std::string err ABSL_GUARDED_BY(mutex);
  bool ended ABSL_GUARDED_BY(mutex) = false;  // both outputs closed
  std::jthread reader;  // uses all of the above: joined first

  void ReadLoop();
  bool ReadSome(int fd, std::string* into);
  void WriteStdin();
  bool Reap(int options);
};

// False when the child closed this output.
bool Process::Impl::ReadSome(int fd, std::string* into) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR;
  MutexLock lock(mutex);
  into->append(buffer.data(), static_cast<size_t>(got));
  changed.NotifyAll();
  return got > 0;
}

void Process::Impl::WriteStdin() {
  size_t done = 0;
  while (done < stdin_text.size()) {
    const ssize_t n =
        write(in_fd, stdin_text.data() + done, stdin_text.size() - done);
    if (n <= 0) break;  // the child closed its end
    done += static_cast<size_t>(n);
  }
  close(in_fd);
}

void Process::Impl::ReadLoop() {
  WriteStdin();
  std::array<pollfd, 2> fds{pollfd{out_fd, POLLIN, 0},
                            pollfd{err_fd, POLLIN, 0}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[0].revents != 0 && !ReadSome(out_fd, &out)) fds[0].fd = -1;
    if (fds[1].revents != 0 && !ReadSome(err_fd, &err)) fds[1].fd = -1;
  }
  close(out_fd);
  close(err_fd);
  MutexLock lock(mutex);
  ended = true;
  changed.NotifyAll();
}

bool Process::Impl::Reap(int options) {
  if (exit_code.has_value()) return true;
  int status = 0;
  if (waitpid(pid, &status, options) != pid) return false;
  exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return true;
}

Process::Process() : impl_(std::make_unique<Impl>()) {}

Process::~Process() {
  if (impl_->pid > 0 && !impl_->exit_code.has_value()) {
    kill(impl_->pid, SIGKILL);
    impl_->Reap(0);
  }
}

absl::StatusOr<std::unique_ptr<Process>> Process::Start(
    const std::vector<std::string>& argv, const ProcessOptions& options) {
  Pipe in, out, err;
  if (!in.Open() || !out.Open() || !err.Open()) {
    return absl::InternalError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> environment = Environment(options.environment);
  const std::vector<char*> arguments = Pointers(argv);
  const std::vector<char*> variables = Pointers(environment);
  const pid_t pid = fork();
  if (pid == 0) {  // only async-signal-safe calls from here to exec
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL);  // the tests may run under nohup
    if (!options.network_namespace.empty()) {
      EnterNamespace(options.network_namespace.c_str());
    }
    dup2(in.read_end(), STDIN_FILENO);
    dup2(out.write_end(), STDOUT_FILENO);
    dup2(err.write_end(), STDERR_FILENO);
    execve(arguments[0], arguments.data(), variables.data());
    _exit(127);
  }
  close(in.read_end());
  close(out.write_end());
  close(err.write_end());
  if (pid < 0) {
    return absl::InternalError(absl::StrCat("fork: ", std::strerror(errno)));
  }
  std::unique_ptr<Process> process(new Process());
  Impl& impl = *process->impl_;
  impl.pid = pid;
  impl.in_fd = in.write_end();
  impl.out_fd = out.read_end();
  impl.err_fd = err.read_end();
  impl.stdin_text = options.stdin_text;
  impl.reader = std::jthread([&impl] { impl.ReadLoop(); });
  return process;
}

pid_t Process::pid() const { return impl_->pid; }

void Process::Signal(int signal_number) {
  if (!impl_->exit_code.has_value()) kill(impl_->pid, signal_number);
}

absl::Status Process::WaitForOutput(
    const std::function<bool(std::string_view, std::string_view)>& accept,
    absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  Impl& impl = *impl_;
  MutexLock lock(impl.mutex);
  bool in_time = true;
  while (!accept(impl.out, impl.err)) {
    if (impl.ended || !in_time) {
      const std::string seen =
          absl::StrCat("output: ", impl.out, "\nerrors: ", impl.err);
      return impl.ended ? absl::FailedPreconditionError(
                              absl::StrCat("the child ended; ", seen))
                        : absl::DeadlineExceededError(seen);
    }
    in_time = impl.changed.WaitUntil(impl.mutex, deadline);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Process::Wait(absl::Duration timeout) {
  // Closing its outputs is the last thing that an ending process does.
  const absl::Time deadline = absl::Now() + timeout;
  Impl& impl = *impl_;
  {
    MutexLock lock(impl.mutex);
    while (!impl.ended) {
      if (!impl.changed.WaitUntil(impl.mutex, deadline) &&
          absl::Now() >= deadline) {
        return absl::DeadlineExceededError(absl::StrCat(
            "still running; output: ", impl.out, "\nerrors: ", impl.err));
      }
    }
  }
  impl.Reap(0);
  return *impl.exit_code;
}

std::string Process::out() const {
  MutexLock lock(impl_->mutex);
  return impl_->out;
}

std::string Process::err() const {
  MutexLock lock(impl_->mutex);
  return impl_->err;
}

absl::StatusOr<ProcessResult> RunProcess(const std::vector<std::string>& argv,
                                         absl::Duration timeout,
                                         const ProcessOptions& options) {
  absl::StatusOr<std::unique_ptr<Process>> process =
      Process::Start(argv, options);
  if (!process.ok()) return process.status();
  const absl::StatusOr<int> exit_code = (*process)->Wait(timeout);
  if (!exit_code.ok()) return exit_code.status();
  return ProcessResult{*exit_code, (*process)->out(), (*process)->err()};
}

std::string DeltafinBinary() {
  return std::string(DELTAFIN_BINARY_DIR) + "/coordinator/deltafin";
}

std::string DeltafinNodeBinary() {
  return std::string(DELTAFIN_BINARY_DIR) + "/expert_node/deltafin-node";
}

std::string NanoModelDir() {
  return std::string(DELTAFIN_SOURCE_DIR) + "/deploy/models/k3-nano";
}

}  // namespace deltafin::testing
