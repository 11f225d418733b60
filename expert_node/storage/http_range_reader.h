// expert_node/storage/http_range_reader.h
//
// The one door of libcurl: HTTP requests, each a byte range of a URL or a small
// text, over a bounded number of connections driven by one thread. A range's
// body is written straight into the caller's memory, and only once the answer's
// header has proved to be that of the wanted bytes. Redirects are not followed:
// they are answers. Proxies are those of the environment (http_proxy,
// https_proxy, no_proxy). Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "expert_node/storage/http_answer.h"

namespace deltafin {

struct HttpOptions {
  // Connections at once, idle ones included; more requests wait their turn.
  int max_connections = 8;
  absl::Duration connect_timeout = absl::Seconds(15);
  // A transfer that brings less than stall_bytes_per_second for stall_timeout
  // ends with UNAVAILABLE.
  absl::Duration stall_timeout = absl::Seconds(20);
  int stall_bytes_per_second = 1024;
  // PEM file of the authorities whose https servers are trusted; empty: those
  // of the system.
  std::string ca_file;
};

struct TransferRequest {
  enum class Method { kGet, kHead };
  Method method = Method::kGet;
  std::string url;                        // http or https
  std::vector<std::string> header_lines;  // "Name: value"
  // What is asked for. Without bytes in `wanted.out` the body is text.
  WantedRange wanted;
  // Bound of a text body of a 2xx answer; of others the first 4 KiB are kept.
  size_t max_text_bytes = 4096;
  // Called by the reader's thread once the transfer is done; must not block.
  // May be empty.
  std::function<void()> on_done;
};

// What all transfers of a reader cost.
struct HttpCounts {
  uint64_t requests = 0;
  uint64_t body_bytes = 0;   // over the wire, those of refused answers included
  uint64_t connections = 0;  // opened
};

class HttpTransfer;  // one request on its way
class HttpRangeReader {
 public:
  explicit HttpRangeReader(const HttpOptions& options);
  // Ends what is on its way with CANCELLED, and joins.
  ~HttpRangeReader();
  HttpRangeReader(const HttpRangeReader&) = delete;
  HttpRangeReader& operator=(const HttpRangeReader&) = delete;

  // Never blocks. `request.wanted.out` must live until the transfer is done.
  std::shared_ptr<HttpTransfer> Start(TransferRequest request);
  // Start and wait.
  absl::StatusOr<HttpAnswer> Run(TransferRequest request);
  // Ends `transfer` with CANCELLED unless it is done already; returns when its
  // memory is no longer written to.
  void Cancel(HttpTransfer& transfer);
  // Ends every transfer, now and later, with CANCELLED.
  void CancelAll();

  HttpCounts counts() const;

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

// Handle of a request. Thread-safe.
class HttpTransfer {
 public:
  virtual ~HttpTransfer() = default;

  // Blocks. False when the deadline passed first.
  virtual bool WaitUntil(absl::Time deadline) = 0;
  bool done() { return WaitUntil(absl::UnixEpoch()); }
  // Bytes at the front of `wanted.out` that are stored, right ones also when
  // the transfer failed later.
  virtual uint64_t received() const = 0;
  // REQUIRES: done. The answer, whatever its status; a range's body is complete
  // when the status is 200 or 206. Errors:
  // UNAVAILABLE: no connection, lost, stalled, truncated;
  // DATA_LOSS: a 2xx answer that is not the wanted bytes, nothing of it counts;
  // FAILED_PRECONDITION: certificate or TLS set-up;
  // INVALID_ARGUMENT: the URL; CANCELLED.
  virtual const absl::StatusOr<HttpAnswer>& result() const = 0;
};

}  // namespace deltafin
