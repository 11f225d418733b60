#include "coordinator/cli/child_run.h"

#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"

extern char** environ;

namespace deltafin {
namespace {

// A file in memory, which takes any amount of output without a reader.
absl::StatusOr<FileDescriptor> MemoryFile(const char* name) {
  FileDescriptor file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, "create", name);
  return file;
}

absl::StatusOr<std::string> Contents(const FileDescriptor& file) {
  ASSIGN_OR_RETURN(const uint64_t size, FileSize(file.get(), "child output"));
  std::string text(size, '\0');
  RETURN_IF_ERROR(ReadExactly(
      file.get(), 0, {reinterpret_cast<uint8_t*>(text.data()), text.size()},
      "child output"));
  return text;
}

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& argv, int out,
                            int err) {
  std::vector<char*> arguments;
  for (const std::string& word : argv) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, arguments[0], &actions, nullptr,
                                arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoStatus(error, "start", argv[0]);
  return pid;
}

}  // namespace

absl::StatusOr<ChildOutput> RunChild(const std::vector<std::string>& argv,
                                     TerminationSignal& signals) {
  ASSIGN_OR_RETURN(const FileDescriptor out, MemoryFile("stdout"));
  ASSIGN_OR_RETURN(const FileDescriptor err, MemoryFile("stderr"));
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(argv, out.get(), err.get()));
  const SignalHandling handling(signals, [pid](int signal) {
    kill(pid, signal);
    return false;
  });
  int status = 0;
  while (waitpid(pid, &status, 0) != pid) {
    if (errno != EINTR) return ErrnoStatus(errno, "wait for", argv[0]);
  }
  ChildOutput output;
  output.exit_code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ASSIGN_OR_RETURN(output.out, Contents(out));
  ASSIGN_OR_RETURN(output.err, Contents(err));
  return output;
}

}  // namespace deltafin
