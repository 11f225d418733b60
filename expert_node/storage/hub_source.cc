#include "expert_node/storage/hub_source.h"

#include <atomic>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/http_fields.h"
#include "expert_node/storage/http_url.h"
#include "expert_node/storage/range_fetcher.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr int kMaxRedirects = 5;
// Larger files are not started over.
constexpr uint64_t kMostWithoutRanges = 16 << 20;

// Where a file's bytes are, and since which look-up.
struct Location {
  std::string url;
  int generation = 0;
  std::string etag;  // of the first answer from there; empty before
};

struct RemoteFile {
  HubFile listed;
  Mutex mutex;  // held while the Hub is asked: one look-up however many wait
  Location location ABSL_GUARDED_BY(mutex);
};

HttpOptions WithAuthorities(const HubOptions& options) {
  HttpOptions http = options.http;
  if (http.ca_file.empty()) http.ca_file = options.access.ca_file;
  return http;
}

bool IsComplete(const RangeOutcome& outcome) {
  return outcome.answer.ok() && outcome.answer->status / 100 == 2;
}

}  // namespace

struct HubSource::Parts {
  explicit Parts(HubOptions opts)
      : options(std::move(opts)),
        reader(WithAuthorities(options)),
        pace(options.retry, options.budget),
        client(options, reader, pace),
        fetcher(options.slow, reader) {}

  absl::Status Read(const std::string& commit, RemoteFile& file,
                    WantedRange wanted);
  absl::StatusOr<Location> Locate(const std::string& commit, RemoteFile& file,
                                  int stale_generation);
  absl::StatusOr<RangeOutcome> Fetch(std::string& url,
                                     const WantedRange& wanted);
  absl::Status CheckEtag(RemoteFile& file, const Location& location,
                         const HttpAnswer& answer);

  const HubOptions options;
  HttpRangeReader reader;
  RequestPace pace;
  HubClient client;
  RangeFetcher fetcher;
  std::map<std::string, RemoteFile> files;  // not changed after Create
  std::atomic<uint64_t> resolves{0};
};

absl::StatusOr<std::unique_ptr<HubSource>> HubSource::Create(
    HubOptions options) {
  const std::string model =
      options.model.repository + "@" + options.model.revision;
  RETURN_IF_ERROR(ParseModelRevision(model).status());
  RETURN_IF_ERROR(AddContext(ParseHttpUrl(options.access.endpoint).status(),
                             "the endpoint (HF_ENDPOINT)"));
  std::unique_ptr<HubSource> source(new HubSource(std::move(options)));
  RETURN_IF_ERROR(AddContext(source->LoadFiles(), model));
  return source;
}

HubSource::HubSource(HubOptions options)
    : parts_(std::make_unique<Parts>(std::move(options))),
      name_(parts_->options.model.repository + "@" +
            parts_->options.model.revision) {}

HubSource::~HubSource() = default;

absl::Status HubSource::LoadFiles() {
  ASSIGN_OR_RETURN(commit_, parts_->client.ResolveRevision());
  ASSIGN_OR_RETURN(std::vector<HubFile> listed,
                   parts_->client.ListFiles(commit_));
  for (HubFile& file : listed) {
    files_.push_back({file.name, file.bytes, file.sha256});
    parts_->files[file.name].listed = std::move(file);
  }
  return absl::OkStatus();
}

absl::Status HubSource::Read(const std::string& file, uint64_t offset,
                             std::span<uint8_t> out) {
  const auto found = parts_->files.find(file);
  if (found == parts_->files.end()) {
    return absl::NotFoundError(fmt::format("{} has no file {}", name_, file));
  }
  const uint64_t bytes = found->second.listed.bytes;
  const std::string context = fmt::format("{}: {}: {} bytes at offset {}",
                                          name_, file, out.size(), offset);
  if (offset > bytes || out.size() > bytes - offset) {
    return absl::OutOfRangeError(
        fmt::format("{}: the file has {}", context, bytes));
  }
  if (out.empty()) return absl::OkStatus();
  return AddContext(parts_->Read(commit_, found->second, {offset, out, bytes}),
                    context);
}

void HubSource::Cancel() {
  parts_->pace.Cancel();
  parts_->reader.CancelAll();
}

HubCounts HubSource::counts() const {
  const HttpCounts http = parts_->reader.counts();
  HubCounts counts;
  counts.requests = http.requests;
  counts.body_bytes = http.body_bytes;
  counts.connections = http.connections;
  counts.resolves = parts_->resolves;
  counts.retries = parts_->pace.retries();
  counts.pauses = parts_->pace.budget().num_pauses();
  counts.reissues = parts_->fetcher.reissues();
  return counts;
}

// One try after the other, each for what has not arrived yet.
absl::Status HubSource::Parts::Read(const std::string& commit, RemoteFile& file,
                                    WantedRange wanted) {
  RequestTries tries(pace);
  RETURN_IF_ERROR(tries.Begin());
  const WantedRange all = wanted;
  int stale_generation = 0;
  bool was_refused = false;
  while (true) {
    ASSIGN_OR_RETURN(const Location location,
                     Locate(commit, file, stale_generation));
    std::string url = location.url;
    ASSIGN_OR_RETURN(const RangeOutcome outcome, Fetch(url, wanted));
    if (IsComplete(outcome)) {
      pace.budget().Succeeded();
      return CheckEtag(file, location, *outcome.answer);
    }
    if (outcome.received > 0) {
      tries.Progressed();
      was_refused = false;
      wanted.offset += outcome.received;
      wanted.out = wanted.out.subspan(outcome.received);
    }
    const HttpAnswer* const answer =
        outcome.answer.ok() ? &*outcome.answer : nullptr;
    const bool signature = answer != nullptr && !client.IsHub(url) &&
                           (answer->status == 403 || answer->status == 401);
    if (signature && !was_refused) {
      was_refused = true;  // the URL has expired; a second time it is refused
      stale_generation = location.generation;
      continue;
    }
    if (absl::IsDataLoss(outcome.answer.status()) && all.whole_file() &&
        all.file_bytes <= kMostWithoutRanges) {
      wanted = all;  // the server may know no ranges
    }
    RETURN_IF_ERROR(tries.Again(
        answer ? client.Refusal(*answer, url.substr(0, url.find('?')))
               : outcome.answer.status(),
        answer));
  }
}

absl::StatusOr<Location> HubSource::Parts::Locate(const std::string& commit,
                                                  RemoteFile& file,
                                                  int stale_generation) {
  MutexLock lock(file.mutex);
  if (file.location.generation <= stale_generation) {
    ASSIGN_OR_RETURN(std::string url, client.Locate(commit, file.listed));
    file.location = {std::move(url), file.location.generation + 1, ""};
    ++resolves;
  }
  return file.location;
}

// Follows redirects; `url` becomes the last one asked.
absl::StatusOr<RangeOutcome> HubSource::Parts::Fetch(
    std::string& url, const WantedRange& wanted) {
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    TransferRequest request;
    request.url = url;
    request.header_lines = client.HeaderLines(url);
    request.wanted = wanted;
    RangeOutcome outcome = fetcher.Fetch(request);
    if (!outcome.answer.ok() || outcome.answer->status / 100 != 3) {
      return outcome;
    }
    ASSIGN_OR_RETURN(const HttpUrl base, ParseHttpUrl(url));
    ASSIGN_OR_RETURN(const HttpUrl target,
                     RedirectTarget(base, outcome.answer->field("location")));
    url = target.text();
  }
  return absl::FailedPreconditionError(
      fmt::format("more than {} redirects", kMaxRedirects));
}

// All answers from one location must be of one file.
absl::Status HubSource::Parts::CheckEtag(RemoteFile& file,
                                         const Location& location,
                                         const HttpAnswer& answer) {
  const std::string etag = NormalizedEtag(answer.field("etag"));
  MutexLock lock(file.mutex);
  if (etag.empty() || file.location.generation != location.generation) {
    return absl::OkStatus();
  }
  if (file.location.etag.empty()) file.location.etag = etag;
  if (file.location.etag == etag) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("the file changed meanwhile: its entity tag was {}, now {}",
                  file.location.etag, etag.substr(0, 100)));
}

}  // namespace deltafin
