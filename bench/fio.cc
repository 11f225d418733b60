#include "bench/fio.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace deltafin::bench {
namespace {

struct ClosePipe {
  void operator()(FILE* pipe) const { pclose(pipe); }
};

// What the command prints, at most a few lines; empty where it cannot run.
std::string OutputOf(const std::string& command) {
  const std::unique_ptr<FILE, ClosePipe> pipe(popen(command.c_str(), "r"));
  std::string output;
  std::array<char, 4096> buffer;
  while (pipe != nullptr) {
    const size_t got = fread(buffer.data(), 1, buffer.size(), pipe.get());
    if (got == 0) break;
    output.append(buffer.data(), got);
  }
  return output;
}

// As one word of the shell.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

// A field of fio's terse output, counted from 1 as in its manual.
std::string TerseField(const std::string& line, int number) {
  size_t begin = 0;
  for (int i = 1; i < number; ++i) {
    begin = line.find(';', begin);
    if (begin == std::string::npos) return "";
    ++begin;
  }
  return line.substr(begin, line.find(';', begin) - begin);
}

}  // namespace

std::optional<std::string> FioVersion() {
  std::string version = OutputOf("fio --version 2>/dev/null");
  while (!version.empty() && version.back() == '\n') version.pop_back();
  if (!version.starts_with("fio-")) return std::nullopt;
  return version;
}

std::optional<double> FioReadRate(const std::string& path, size_t bytes,
                                  size_t request_bytes, int num_jobs) {
  const std::string part = std::to_string(bytes / num_jobs);
  const std::string line = OutputOf(
      "fio --name=layer --rw=read --direct=1 --ioengine=psync --thread"
      " --group_reporting --loops=3 --terse-version=3 --minimal --filename=" +
      Quoted(path) + " --bs=" + std::to_string(request_bytes) +
      " --size=" + part + " --offset_increment=" + part +
      " --numjobs=" + std::to_string(num_jobs) + " 2>/dev/null");
  const double kib = std::atof(TerseField(line, 6).c_str());
  const double milliseconds = std::atof(TerseField(line, 9).c_str());
  if (TerseField(line, 1) != "3" || kib <= 0 || milliseconds <= 0) {
    return std::nullopt;
  }
  return kib * 1024 / (milliseconds * 1e-3);
}

}  // namespace deltafin::bench
