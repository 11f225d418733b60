#include "tests/testing/hub_fault.h"

#include <algorithm>
#include <map>
#include <vector>

#include "common/base/file_io.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin::testing {
namespace {

constexpr uint64_t kChunk = 64 << 10;

struct Sender {
  const FileAnswer& what;
  const std::optional<HubFault>& fault;
  AnswerStream& answer;

  bool Is(FaultKind kind) const { return fault && fault->kind == kind; }
  std::string Header(uint64_t first, uint64_t last) const;
  bool Bytes(const FileDescriptor& fd, uint64_t first, uint64_t last) const;
  bool Body(uint64_t first, uint64_t last) const;
};

std::string Sender::Header(uint64_t first, uint64_t last) const {
  const uint64_t total =
      what.file->bytes + (Is(FaultKind::kChangedSize) ? 1 : 0);
  const uint64_t body = last - first + 1;
  const bool whole = !what.ranged || Is(FaultKind::kWholeFile);
  std::string header =
      whole ? "HTTP/1.1 200 OK\r\n" : "HTTP/1.1 206 Partial Content\r\n";
  if (!whole) {
    header +=
        fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, last, total);
  }
  if (Is(FaultKind::kMultipart)) {
    header += "Content-Type: multipart/byteranges; boundary=x\r\n";
  }
  if (Is(FaultKind::kEncoded)) header += "Content-Encoding: gzip\r\n";
  if (!what.etag.empty()) {
    header += fmt::format(
        "ETag: {}\r\n", Is(FaultKind::kChangedEtag) ? "\"other\"" : what.etag);
  }
  if (Is(FaultKind::kTooLong)) return header + "Connection: close\r\n\r\n";
  return header + fmt::format("Content-Length: {}\r\n\r\n",
                              Is(FaultKind::kShortLength) ? body / 2 : body);
}

bool Sender::Bytes(const FileDescriptor& fd, uint64_t first,
                   uint64_t last) const {
  std::vector<uint8_t> buffer;
  for (uint64_t at = first; at <= last; at += buffer.size()) {
    buffer.resize(std::min(kChunk, last - at + 1));
    if (!ReadExactly(fd.get(), at, buffer, what.file->path).ok()) return false;
    if (Is(FaultKind::kFlippedBit) && at == first) buffer[0] ^= 1;
    if (!answer.Write(
            {reinterpret_cast<const char*>(buffer.data()), buffer.size()})) {
      return false;
    }
    if (what.bytes_per_second > 0 &&
        !answer.Sleep(absl::Seconds(static_cast<double>(buffer.size()) /
                                    what.bytes_per_second))) {
      return false;
    }
  }
  return true;
}

bool Sender::Body(uint64_t first, uint64_t last) const {
  const auto fd = OpenForReading(what.file->path);
  if (!fd.ok()) return false;
  const uint64_t middle = first + (last - first) / 2;
  if (Is(FaultKind::kTruncated)) {
    Bytes(*fd, first, middle);
    return false;
  }
  if (Is(FaultKind::kShortLength)) {
    return Bytes(*fd, first, first + (last - first + 1) / 2 - 1);
  }
  if (Is(FaultKind::kStalled) || Is(FaultKind::kSlow)) {
    return Bytes(*fd, first, middle) &&
           answer.Sleep(Is(FaultKind::kSlow) ? fault->slow_by
                                             : absl::Minutes(10)) &&
           (middle == last || Bytes(*fd, middle + 1, last));
  }
  if (Is(FaultKind::kTooLong)) {
    Bytes(*fd, first, last);
    answer.Write(std::string(1000, 'x'));
    return false;
  }
  return Bytes(*fd, first, last);
}

std::string_view Reason(int status) {
  return status == 200 ? "OK" : status / 100 == 3 ? "Found" : "Refused";
}

// True when `fault` makes another answer of it than one with a file's bytes.
std::optional<bool> SendInstead(const FileAnswer& what, const HubFault& fault,
                                AnswerStream& answer) {
  switch (fault.kind) {
    case FaultKind::kTooManyRequests:
      return SendText(429, "Retry-After: " + fault.retry_after + "\r\n",
                      "too many requests", answer);
    case FaultKind::kForbidden:
      return SendText(403, "", "<Error><Code>AccessDenied</Code></Error>",
                      answer);
    case FaultKind::kServerError:
      return SendText(503, "", "try again", answer);
    case FaultKind::kReset:
      return false;
    case FaultKind::kRedirectToHttp:
      return SendText(302, "Location: http://192.0.2.1/file\r\n", "", answer);
    case FaultKind::kRedirectToHub:
    case FaultKind::kRedirectForever:
      return SendText(302, "Location: " + what.redirect_target + "\r\n", "",
                      answer);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<FaultKind> FaultKindNamed(const std::string& name) {
  static const std::map<std::string, FaultKind> kinds = {
      {"too-many-requests", FaultKind::kTooManyRequests},
      {"forbidden", FaultKind::kForbidden},
      {"server-error", FaultKind::kServerError},
      {"reset", FaultKind::kReset},
      {"truncated", FaultKind::kTruncated},
      {"short-length", FaultKind::kShortLength},
      {"shifted", FaultKind::kShifted},
      {"multipart", FaultKind::kMultipart},
      {"whole-file", FaultKind::kWholeFile},
      {"encoded", FaultKind::kEncoded},
      {"too-long", FaultKind::kTooLong},
      {"flipped-bit", FaultKind::kFlippedBit},
      {"stalled", FaultKind::kStalled},
      {"slow", FaultKind::kSlow},
      {"changed-size", FaultKind::kChangedSize},
      {"changed-etag", FaultKind::kChangedEtag},
      {"redirect-to-http", FaultKind::kRedirectToHttp},
      {"redirect-to-hub", FaultKind::kRedirectToHub},
      {"redirect-forever", FaultKind::kRedirectForever},
  };
  const auto found = kinds.find(name);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

bool SendFile(const FileAnswer& what, const std::optional<HubFault>& fault,
              AnswerStream& answer) {
  if (fault) {
    if (const auto sent = SendInstead(what, *fault, answer)) return *sent;
  }
  const Sender sender = {what, fault, answer};
  uint64_t first = what.first;
  uint64_t last = what.last;
  if (sender.Is(FaultKind::kWholeFile)) {
    first = 0;
    last = what.file->bytes - 1;
  }
  if (sender.Is(FaultKind::kShifted) && first < last) ++first;
  if (!answer.Write(sender.Header(first, last))) return false;
  return sender.Body(first, last);
}

bool SendText(int status, const std::string& fields, const std::string& text,
              AnswerStream& answer) {
  return answer.Write(
      fmt::format("HTTP/1.1 {} {}\r\n{}Content-Length: "
                  "{}\r\n\r\n{}",
                  status, Reason(status), fields, text.size(), text));
}

}  // namespace deltafin::testing
