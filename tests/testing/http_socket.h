// tests/testing/http_socket.h
//
// A client's end of an HTTP connection that sends exactly the bytes it is told
// to. Blocking, with a patience of a minute; thread-compatible.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/file_io.h"

namespace deltafin::testing {

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
};

class HttpSocket {
 public:
  // To 127.0.0.1. A test that cannot connect fails at its first answer.
  // `receive_buffer_bytes`: of the kernel; 0: the default.
  explicit HttpSocket(int port, int receive_buffer_bytes = 0);

  // False when the server has closed.
  bool Send(std::string_view bytes);
  // The next answer. None when the connection ends within it or before.
  std::optional<HttpAnswer> ReadAnswer(bool is_head = false);
  // All up to `end` and with it; less when the connection ends.
  std::string ReadUntil(std::string_view end);
  std::string ReadToEnd();
  // Waits until the server closes, and drops what comes until then.
  void AwaitClose() { ReadToEnd(); }

  void EndSending();
  void Close();
  // So that the server sees it at its next read or write.
  void Reset();
  int fd() const { return fd_.get(); }

 private:
  bool Fill();  // false: the end

  FileDescriptor fd_;
  std::string received_;
};

}  // namespace deltafin::testing
