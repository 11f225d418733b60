#include "expert_node/storage/http_range_reader.h"

#include <curl/curl.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "expert_node/storage/http_transfer.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// What curl reads at once; one buffer a transfer.
constexpr long kReceiveBytes = 256 << 10;

// The one place where curl's codes become ours.
absl::Status CurlStatus(CURLcode code, const char* details) {
  const std::string message = details[0] ? details : curl_easy_strerror(code);
  switch (code) {
    case CURLE_OK:
      return absl::OkStatus();
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
      return absl::InvalidArgumentError(message);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
      return absl::FailedPreconditionError(message);
    case CURLE_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError(message);
    case CURLE_OPERATION_TIMEDOUT:
      return absl::UnavailableError("stalled: " + message);
    default:
      return absl::UnavailableError(message);
  }
}

size_t OnHeader(char* text, size_t, size_t size, void* transfer) {
  const bool taken =
      static_cast<RangeTransfer*>(transfer)->TakeHeaderLine({text, size});
  return taken ? size : 0;
}

size_t OnBody(char* bytes, size_t, size_t size, void* transfer) {
  const bool taken = static_cast<RangeTransfer*>(transfer)->TakeBody(
      {reinterpret_cast<const uint8_t*>(bytes), size});
  return taken ? size : 0;
}

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// A transfer that curl has.
struct Active {
  std::shared_ptr<RangeTransfer> transfer;
  std::unique_ptr<curl_slist, FreeList> header_lines;
  std::array<char, CURL_ERROR_SIZE> details = {};
  std::unique_ptr<CURL, FreeEasy> easy;  // uses the others
  absl::Time window_start;               // of the stall watch
  curl_off_t window_bytes = 0;           // that had come then
};

void SetRequest(CURL* easy, const TransferRequest& request) {
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  if (request.method == TransferRequest::Method::kHead) {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  }
  if (!request.wanted.out.empty()) {
    const WantedRange& wanted = request.wanted;
    const std::string range = fmt::format(
        "{}-{}", wanted.offset, wanted.offset + wanted.out.size() - 1);
    curl_easy_setopt(easy, CURLOPT_RANGE, range.c_str());
  }
}

void SetLimits(CURL* easy, const HttpOptions& options) {
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  // Ranges share no connection, so that each can be slow or lost alone.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  if (!options.ca_file.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, options.ca_file.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  }
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kReceiveBytes);
  curl_easy_setopt(
      easy, CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(absl::ToInt64Milliseconds(options.connect_timeout)));
}

}  // namespace

// The thread that drives curl, and what it shares with callers.
struct HttpRangeReader::Loop {
  explicit Loop(const HttpOptions& options);
  ~Loop();

  void Run();
  bool BeginWaiting();  // false: stop
  void Begin(std::shared_ptr<RangeTransfer> transfer);
  void EndCancelled();
  void EndFinished();
  void EndStalled();
  void End(CURL* easy, CURLcode code);

  const HttpOptions options;
  CURLM* const multi;
  std::map<CURL*, std::unique_ptr<Active>> active;  // of the thread alone
  Mutex mutex;
  std::deque<std::shared_ptr<RangeTransfer>> waiting ABSL_GUARDED_BY(mutex);
  bool stop ABSL_GUARDED_BY(mutex) = false;
  bool cancel_all ABSL_GUARDED_BY(mutex) = false;
  HttpCounts counts ABSL_GUARDED_BY(mutex);
  std::thread thread;
};

HttpRangeReader::Loop::Loop(const HttpOptions& opts)
    : options(opts), multi([] {
        static const CURLcode initialized =
            curl_global_init(CURL_GLOBAL_DEFAULT);
        CHECK(initialized == CURLE_OK);
        return curl_multi_init();
      }()) {
  CHECK(multi != nullptr);
  CHECK(options.max_connections >= 1);
  CHECK(options.stall_timeout > absl::ZeroDuration());
  curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS,
                    static_cast<long>(options.max_connections));
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS,
                    static_cast<long>(options.max_connections));
  thread = std::thread([this] { Run(); });
}

HttpRangeReader::Loop::~Loop() {
  {
    MutexLock lock(mutex);
    stop = cancel_all = true;
  }
  curl_multi_wakeup(multi);
  thread.join();
  curl_multi_cleanup(multi);
}

void HttpRangeReader::Loop::Run() {
  pthread_setname_np(pthread_self(), "http-ranges");
  const int watch_ms = static_cast<int>(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(options.stall_timeout / 4), 1, 1000));
  while (true) {
    EndCancelled();
    if (!BeginWaiting()) break;
    int running = 0;
    curl_multi_perform(multi, &running);
    EndFinished();
    EndStalled();
    curl_multi_poll(multi, nullptr, 0, watch_ms, nullptr);
  }
  EndCancelled();
}

bool HttpRangeReader::Loop::BeginWaiting() {
  while (true) {
    std::shared_ptr<RangeTransfer> next;
    {
      MutexLock lock(mutex);
      if (stop) return false;
      const bool full =
          active.size() >= static_cast<size_t>(options.max_connections);
      if (full || waiting.empty()) return true;
      next = std::move(waiting.front());
      waiting.pop_front();
      ++counts.requests;
    }
    Begin(std::move(next));
  }
}

void HttpRangeReader::Loop::Begin(std::shared_ptr<RangeTransfer> transfer) {
  auto begun = std::make_unique<Active>();
  begun->easy.reset(curl_easy_init());
  CURL* const easy = begun->easy.get();
  CHECK(easy != nullptr);
  begun->header_lines.reset(
      curl_slist_append(nullptr, "Accept-Encoding: identity"));
  for (const std::string& line : transfer->request().header_lines) {
    curl_slist_append(begun->header_lines.get(), line.c_str());
  }
  SetRequest(easy, transfer->request());
  SetLimits(easy, options);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, begun->header_lines.get());
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, begun->details.data());
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer.get());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer.get());
  begun->transfer = std::move(transfer);
  begun->window_start = absl::Now();
  CHECK(curl_multi_add_handle(multi, easy) == CURLM_OK);
  active.emplace(easy, std::move(begun));
}

void HttpRangeReader::Loop::EndCancelled() {
  std::vector<std::shared_ptr<RangeTransfer>> ended;
  bool all;
  {
    MutexLock lock(mutex);
    all = cancel_all;
    std::erase_if(waiting, [&](const std::shared_ptr<RangeTransfer>& transfer) {
      if (!all && !transfer->cancelled()) return false;
      ended.push_back(transfer);
      return true;
    });
  }
  for (const auto& transfer : ended) {
    transfer->Finish(absl::CancelledError("cancelled"));
  }
  std::vector<CURL*> easies;
  for (const auto& [easy, one] : active) {
    if (all || one->transfer->cancelled()) easies.push_back(easy);
  }
  for (CURL* const easy : easies) End(easy, CURLE_ABORTED_BY_CALLBACK);
}

void HttpRangeReader::Loop::EndFinished() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    End(message->easy_handle, message->data.result);
    curl_multi_wakeup(multi);  // one that waits may begin at once
  }
}

// curl's own watch averages over seconds, and takes none but whole ones.
void HttpRangeReader::Loop::EndStalled() {
  const absl::Time now = absl::Now();
  const double least = options.stall_bytes_per_second *
                       absl::ToDoubleSeconds(options.stall_timeout);
  std::vector<CURL*> stalled;
  for (const auto& [easy, one] : active) {
    if (now - one->window_start < options.stall_timeout) continue;
    curl_off_t bytes = 0;
    curl_easy_getinfo(easy, CURLINFO_SIZE_DOWNLOAD_T, &bytes);
    if (static_cast<double>(bytes - one->window_bytes) < least) {
      stalled.push_back(easy);
    }
    one->window_start = now;
    one->window_bytes = bytes;
  }
  for (CURL* const easy : stalled) End(easy, CURLE_OPERATION_TIMEDOUT);
}

void HttpRangeReader::Loop::End(CURL* easy, CURLcode code) {
  const auto found = active.find(easy);
  const std::unique_ptr<Active> ended = std::move(found->second);
  active.erase(found);
  curl_off_t body_bytes = 0;
  long connections = 0;
  curl_easy_getinfo(easy, CURLINFO_SIZE_DOWNLOAD_T, &body_bytes);
  curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connections);
  curl_multi_remove_handle(multi, easy);
  {
    MutexLock lock(mutex);
    counts.body_bytes += static_cast<uint64_t>(body_bytes);
    counts.connections += static_cast<uint64_t>(connections);
  }
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    ended->transfer->Finish(absl::CancelledError("cancelled"));
  } else {
    ended->transfer->FinishConnection(CurlStatus(code, ended->details.data()));
  }
}

HttpRangeReader::HttpRangeReader(const HttpOptions& options)
    : loop_(std::make_unique<Loop>(options)) {}

HttpRangeReader::~HttpRangeReader() = default;

std::shared_ptr<HttpTransfer> HttpRangeReader::Start(TransferRequest request) {
  auto transfer = std::make_shared<RangeTransfer>(std::move(request));
  {
    MutexLock lock(loop_->mutex);
    loop_->waiting.push_back(transfer);
  }
  curl_multi_wakeup(loop_->multi);
  return transfer;
}

absl::StatusOr<HttpAnswer> HttpRangeReader::Run(TransferRequest request) {
  const auto transfer = Start(std::move(request));
  transfer->WaitUntil(absl::InfiniteFuture());
  return transfer->result();
}

void HttpRangeReader::Cancel(HttpTransfer& transfer) {
  static_cast<RangeTransfer&>(transfer).RequestCancel();
  curl_multi_wakeup(loop_->multi);
  transfer.WaitUntil(absl::InfiniteFuture());
}

void HttpRangeReader::CancelAll() {
  {
    MutexLock lock(loop_->mutex);
    loop_->cancel_all = true;
  }
  curl_multi_wakeup(loop_->multi);
}

HttpCounts HttpRangeReader::counts() const {
  MutexLock lock(loop_->mutex);
  return loop_->counts;
}

}  // namespace deltafin
