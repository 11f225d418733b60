#include "tests/testing/http_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cctype>
#include <cstdlib>
#include <utility>

namespace deltafin::testing {
namespace {

FileDescriptor Connect(int port, int receive_buffer_bytes) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (receive_buffer_bytes > 0) {
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
               sizeof(receive_buffer_bytes));
  }
  const timeval patience = {60, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    fd = FileDescriptor();
  }
  return fd;
}

void ParseHead(std::string_view head, HttpAnswer& answer) {
  answer.status = std::atoi(std::string(head.substr(9, 3)).c_str());
  size_t at = head.find("\r\n") + 2;
  while (at < head.size()) {
    const size_t end = head.find("\r\n", at);
    const std::string_view line = head.substr(at, end - at);
    at = end + 2;
    const size_t colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    std::string name(line.substr(0, colon));
    for (char& c : name) {
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    answer.headers[name] = line.substr(colon + 2);
  }
}

}  // namespace

HttpSocket::HttpSocket(int port, int receive_buffer_bytes)
    : fd_(Connect(port, receive_buffer_bytes)) {}

bool HttpSocket::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool HttpSocket::Fill() {
  char buffer[16384];
  const ssize_t got = recv(fd_.get(), buffer, sizeof(buffer), 0);
  if (got <= 0) return false;
  received_.append(buffer, static_cast<size_t>(got));
  return true;
}

std::string HttpSocket::ReadUntil(std::string_view end) {
  size_t found = received_.find(end);
  while (found == std::string::npos && Fill()) found = received_.find(end);
  const size_t size =
      found == std::string::npos ? received_.size() : found + end.size();
  std::string text = received_.substr(0, size);
  received_.erase(0, size);
  return text;
}

std::string HttpSocket::ReadToEnd() {
  while (Fill()) {
  }
  return std::exchange(received_, "");
}

std::optional<HttpAnswer> HttpSocket::ReadAnswer(bool is_head) {
  const std::string head = ReadUntil("\r\n\r\n");
  if (!head.ends_with("\r\n\r\n") || !head.starts_with("HTTP/1.1 ")) {
    return std::nullopt;
  }
  HttpAnswer answer;
  ParseHead(head, answer);
  if (is_head) return answer;
  if (answer.headers.count("transfer-encoding") != 0) {
    while (true) {
      const std::string line = ReadUntil("\r\n");
      const size_t size = std::strtoul(line.c_str(), nullptr, 16);
      if (!line.ends_with("\r\n")) return std::nullopt;
      while (received_.size() < size + 2) {
        if (!Fill()) return std::nullopt;
      }
      answer.body += received_.substr(0, size);
      received_.erase(0, size + 2);
      if (size == 0) return answer;
    }
  }
  const size_t size =
      std::strtoul(answer.headers["content-length"].c_str(), nullptr, 10);
  while (received_.size() < size) {
    if (!Fill()) return std::nullopt;
  }
  answer.body = received_.substr(0, size);
  received_.erase(0, size);
  return answer;
}

void HttpSocket::EndSending() { shutdown(fd_.get(), SHUT_WR); }

void HttpSocket::Close() { fd_ = FileDescriptor(); }

void HttpSocket::Reset() {
  const linger at_once = {1, 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  fd_ = FileDescriptor();
}

}  // namespace deltafin::testing
