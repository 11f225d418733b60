// bench/child.h
//
// A process of a bench that serves on a port until its parent ends it.
#pragma once

#include <sys/types.h>

#include <functional>

namespace deltafin::bench {

class Child {
 public:
  // `serve` tells its port through the function it is given, then serves; it
  // ends with the process. REQUIRES: this process has no threads yet.
  explicit Child(const std::function<void(std::function<void(int)>)>& serve);
  ~Child();  // SIGKILL
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int port() const { return port_; }

 private:
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace deltafin::bench
