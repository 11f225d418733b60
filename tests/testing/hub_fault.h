// tests/testing/hub_fault.h
//
// The ways in which an answer with a file's bytes can be wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "tests/testing/emulated_files.h"
#include "tests/testing/loopback_http_server.h"

namespace deltafin::testing {

enum class FaultKind {
  kTooManyRequests,  // 429 with retry_after
  kForbidden,        // 403 with a body, whatever the signature
  kServerError,      // 503
  kReset,            // hangs up without an answer
  kTruncated,        // hangs up after half of the body
  kShortLength,      // says and sends half of the body
  kShifted,          // Content-Range and bytes one further on
  kMultipart,        // multipart/byteranges
  kWholeFile,        // 200 and the whole file
  kEncoded,          // Content-Encoding: gzip
  kTooLong,          // without a length, and 1,000 bytes more
  kFlippedBit,       // the first byte is another
  kStalled,          // nothing after half of the body
  kSlow,             // the second half takes slow_by
  kChangedSize,      // the total in Content-Range is another
  kChangedEtag,      // the validator is another
  kRedirectToHttp,   // to plain http on a machine that is not this one
  kRedirectToHub,    // to the other host
  kRedirectForever,  // to itself
};

// The kind of "too-many-requests" and so on; nullopt for an unknown name.
std::optional<FaultKind> FaultKindNamed(const std::string& name);

struct HubFault {
  FaultKind kind = FaultKind::kServerError;
  int after = 0;  // right answers before them
  int times = 1;  // answers that are wrong; negative: all
  std::string retry_after = "0";
  absl::Duration slow_by = absl::Seconds(1);
};

// What is asked for of a file, and how it is sent.
struct FileAnswer {
  const EmulatedFile* file = nullptr;
  uint64_t first = 0;
  uint64_t last = 0;  // inclusive
  bool ranged = false;
  std::string etag;             // whole field; empty: none
  double bytes_per_second = 0;  // 0: no bound
  std::string redirect_target;  // for kRedirectToHub and kRedirectForever
};

// Sends the file's bytes, as wrong as `fault` says. Returns whether the
// connection stays open.
bool SendFile(const FileAnswer& what, const std::optional<HubFault>& fault,
              AnswerStream& answer);

// A small answer with a Content-Length.
bool SendText(int status, const std::string& fields, const std::string& text,
              AnswerStream& answer);

}  // namespace deltafin::testing
