#include "expert_node/storage/hub_source.h"

#include <gmock/gmock.h>

#include <thread>

#include "common/base/digest.h"
#include "tests/unit/expert_node/storage/hub_test.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

class HubSourceTest : public HubTest {};

TEST_F(HubSourceTest, ListsFilesWithSizesAndDigests) {
  emulator_options_.files_per_page = 1;
  Start();
  ASSERT_EQ(source_->files().size(), 2u);
  EXPECT_EQ(source_->files()[0].name, kSmall);
  EXPECT_EQ(source_->files()[0].sha256, "");
  EXPECT_EQ(source_->files()[1].name, kLarge);
  EXPECT_EQ(source_->files()[1].bytes, kLargeBytes);
  EXPECT_EQ(source_->files()[1].sha256, Sha256Hex(large_));
  EXPECT_EQ(source_->commit(), emulator_->commit());
  EXPECT_EQ(source_->name(), "deltafin/k3-nano@main");
}

TEST_F(HubSourceTest, AsksOnceForEachRangeAndResolvesOnceForEachFile) {
  Start();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(ReadLarge(1000 * i, 70000).ok());
  }
  EXPECT_EQ(emulator_->num_cdn_requests(), 5);
  const HubCounts counts = source_->counts();
  EXPECT_EQ(counts.resolves, 1u);
  EXPECT_EQ(counts.retries, 0u);
  EXPECT_EQ(counts.requests, 2u + 1u + 5u);
  EXPECT_LT(counts.body_bytes, 5 * 70000u + 2000u);
  EXPECT_EQ(emulator_->requests().back().range, "bytes=4000-73999");
}

TEST_F(HubSourceTest, ReadsAFileThatTheHubServesWithoutRangesWhole) {
  Start();
  std::vector<uint8_t> out(8);
  ASSERT_TRUE(source_->Read(kSmall, 0, out).ok());
  EXPECT_EQ(std::string(out.begin(), out.end()), "{\"a\": 1}");
  const absl::Status part = source_->Read(kSmall, 0, std::span(out).first(3));
  EXPECT_TRUE(absl::IsDataLoss(part)) << part;
  EXPECT_THAT(std::string(part.message()), HasSubstr("whole file"));
}

TEST_F(HubSourceTest, NamesWhatIsNotThere) {
  Start();
  std::vector<uint8_t> out(8);
  EXPECT_TRUE(absl::IsNotFound(source_->Read("no.json", 0, out)));
  EXPECT_TRUE(absl::IsOutOfRange(ReadLarge(kLargeBytes - 4, 8)));
  EXPECT_TRUE(absl::IsOutOfRange(ReadLarge(~uint64_t{0}, 8)));
  options_.model.repository = "deltafin/other";
  const absl::Status other = Connect();
  EXPECT_TRUE(absl::IsNotFound(other)) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("deltafin/other"));
}

TEST_F(HubSourceTest, SendsTheTokenToTheHubAloneAndAsksForItWhereItIsMissing) {
  emulator_options_.token = "hf_secret";
  StartEmulator();
  const absl::Status without = Connect();
  EXPECT_TRUE(absl::IsPermissionDenied(without)) << without;
  EXPECT_THAT(std::string(without.message()), HasSubstr("HF_TOKEN"));
  options_.access.token = "hf_secret";
  ASSERT_TRUE(Connect().ok());
  Inject(FaultKind::kForbidden);
  ASSERT_TRUE(ReadLarge(0, 1000).ok());
  EXPECT_EQ(emulator_->num_foreign_authorizations(), 0);
  EXPECT_EQ(emulator_->num_cdn_requests(), 2);
}

TEST_F(HubSourceTest, SendsNoTokenToPlainHttpOnAnotherMachine) {
  Start();
  options_.access = {"http://192.0.2.1:80", "hf_secret", ""};
  HttpRangeReader reader(options_.http);
  RequestPace pace(options_.retry, nullptr);
  const HubClient far(options_, reader, pace);
  EXPECT_EQ(far.HeaderLines("http://192.0.2.1/x").size(), 1u);
  options_.access.endpoint = "https://hub.example";
  EXPECT_EQ(far.HeaderLines("https://hub.example/x").size(), 2u);
  EXPECT_EQ(far.HeaderLines("https://hub.example:444/x").size(), 1u);
  EXPECT_EQ(far.HeaderLines("http://hub.example/x").size(), 1u);
  EXPECT_EQ(far.HeaderLines("https://cdn.example/x").size(), 1u);
}

TEST_F(HubSourceTest, ResolvesAgainWhenTheUrlHasExpired) {
  Start();
  ASSERT_TRUE(ReadLarge(0, 1000).ok());
  emulator_->ExpireUrls();
  ASSERT_TRUE(ReadLarge(1000, 1000).ok());
  EXPECT_EQ(source_->counts().resolves, 2u);
  EXPECT_EQ(emulator_->num_cdn_requests(), 3);
  EXPECT_EQ(source_->counts().retries, 0u);
}

TEST_F(HubSourceTest, ResolvesAgainOnceForAllReadersOfAFile) {
  Start();
  ASSERT_TRUE(ReadLarge(0, 1000).ok());
  emulator_->ExpireUrls();
  std::vector<std::thread> readers;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back(
        [&, i] { EXPECT_TRUE(ReadLarge(1000 * i, 1000).ok()); });
  }
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(source_->counts().resolves, 2u);
}

TEST_F(HubSourceTest, SaysWhatARepeatedRefusalSays) {
  Start();
  Inject(FaultKind::kForbidden, -1);
  const absl::Status refused = ReadLarge(0, 1000);
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("AccessDenied"));
  EXPECT_EQ(emulator_->num_cdn_requests(), 2);
}

struct Fault {
  FaultKind kind;
  absl::StatusCode code;  // when it stays
  std::string says;
};

class HubFaultTest : public HubTest,
                     public ::testing::WithParamInterface<Fault> {};

TEST_P(HubFaultTest, IsOvercomeOnceAndSaidWhenItStays) {
  Start();
  Inject(GetParam().kind);
  const absl::Status once = ReadLarge(5000, 200000);
  EXPECT_TRUE(once.ok()) << once;
  EXPECT_EQ(emulator_->num_cdn_requests(), 2);
  EXPECT_EQ(source_->counts().retries, 1u);
  Inject(GetParam().kind, -1);
  const absl::Status always = ReadLarge(5000, 1000);
  EXPECT_EQ(always.code(), GetParam().code) << always;
  EXPECT_THAT(std::string(always.message()), HasSubstr(GetParam().says));
  EXPECT_THAT(std::string(always.message()), HasSubstr(kLarge));
}

INSTANTIATE_TEST_SUITE_P(
    All, HubFaultTest,
    ::testing::Values(
        Fault{FaultKind::kServerError, absl::StatusCode::kUnavailable, "503"},
        Fault{FaultKind::kReset, absl::StatusCode::kUnavailable, "tried 4"},
        Fault{FaultKind::kShortLength, absl::StatusCode::kDataLoss,
              "a body of 500 bytes instead of bytes 5000-5999 of 1048576"},
        Fault{FaultKind::kShifted, absl::StatusCode::kDataLoss,
              "\"bytes 5001-5999/1048576\" instead of bytes 5000-5999"},
        Fault{FaultKind::kMultipart, absl::StatusCode::kDataLoss,
              "several parts"},
        Fault{FaultKind::kWholeFile, absl::StatusCode::kDataLoss,
              "the whole file (status 200)"},
        Fault{FaultKind::kEncoded, absl::StatusCode::kDataLoss, "gzip"},
        Fault{FaultKind::kTooLong, absl::StatusCode::kDataLoss,
              "more than the wanted 1000 bytes"},
        Fault{FaultKind::kChangedSize, absl::StatusCode::kDataLoss,
              "1048577 bytes now instead of 1048576: it changed meanwhile"}));

TEST_F(HubSourceTest, GoesOnFromWhatArrivedOfATruncatedAnswer) {
  Start();
  Inject(FaultKind::kTruncated, 5);  // more than max_failures, with progress
  ASSERT_TRUE(ReadLarge(0, 512 << 10).ok());
  EXPECT_EQ(emulator_->num_cdn_requests(), 6);
  EXPECT_LE(source_->counts().body_bytes, (512u << 10) + 2000u);
}

TEST_F(HubSourceTest, EndsAStalledTransferAndGoesOn) {
  Start();
  Inject(FaultKind::kStalled);
  ASSERT_TRUE(ReadLarge(0, 512 << 10).ok());
  EXPECT_EQ(emulator_->num_cdn_requests(), 2);
  EXPECT_LE(source_->counts().body_bytes, (512u << 10) + 2000u);
}

TEST_F(HubSourceTest, IssuesASlowRangeASecondTime) {
  options_.slow.least = absl::Milliseconds(150);
  options_.slow.factor = 2;
  options_.slow.min_samples = 2;
  Start();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(ReadLarge(0, 100000).ok());
  HubFault slow;
  slow.kind = FaultKind::kSlow;
  slow.slow_by = absl::Seconds(30);
  emulator_->Inject(slow);
  const HubCounts before = source_->counts();
  ASSERT_TRUE(ReadLarge(300, 100000).ok());
  EXPECT_EQ(source_->counts().reissues, 1u);
  EXPECT_EQ(source_->counts().retries, 0u);
  EXPECT_EQ(source_->counts().requests - before.requests, 2u);
  // The second asks for the missing half alone.
  EXPECT_EQ(source_->counts().body_bytes - before.body_bytes, 100000u);
}

TEST_F(HubSourceTest, ObeysRetryAfterInSeconds) {
  Start();
  HubFault fault;
  fault.kind = FaultKind::kTooManyRequests;
  fault.retry_after = "1";
  emulator_->Inject(fault);
  const absl::Time start = absl::Now();
  ASSERT_TRUE(ReadLarge(0, 1000).ok());
  EXPECT_GE(absl::Now() - start, absl::Seconds(1));
  EXPECT_EQ(source_->counts().pauses, 1u);
  EXPECT_EQ(emulator_->num_cdn_requests(), 2);
}

TEST_F(HubSourceTest, ObeysRetryAfterAsADate) {
  Start();
  HubFault fault;
  fault.kind = FaultKind::kTooManyRequests;
  fault.retry_after =
      absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT",
                       absl::Now() + absl::Seconds(2), absl::UTCTimeZone());
  emulator_->Inject(fault);
  const absl::Time start = absl::Now();
  ASSERT_TRUE(ReadLarge(0, 1000).ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(900));
  EXPECT_EQ(source_->counts().pauses, 1u);
}

TEST_F(HubSourceTest, SaysWhenTheHubAsksForTooLongAWait) {
  Start();
  HubFault fault;
  fault.kind = FaultKind::kTooManyRequests;
  fault.retry_after = "86400";
  emulator_->Inject(fault);
  const absl::Status status = ReadLarge(0, 1000);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("86400 s"));
}

TEST_F(HubSourceTest, TriesTheHubsOwnAnswersAgain) {
  StartEmulator();
  HubFault fault;
  fault.kind = FaultKind::kTooManyRequests;
  emulator_->InjectAtHub(fault);
  fault.kind = FaultKind::kServerError;
  emulator_->InjectAtHub(fault);
  ASSERT_TRUE(Connect().ok());
  EXPECT_EQ(source_->counts().retries, 2u);
  EXPECT_EQ(source_->counts().pauses, 1u);
}

TEST_F(HubSourceTest, NoticesThatAFileChangedSinceItWasListed) {
  Start();
  emulator_->ChangeFile(kLarge);
  const absl::Status status = ReadLarge(0, 1000);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("changed meanwhile"));
  EXPECT_EQ(emulator_->num_cdn_requests(), 0);
}

TEST_F(HubSourceTest, NoticesAnotherValidatorAtTheSameUrl) {
  Start();
  ASSERT_TRUE(ReadLarge(0, 1000).ok());
  Inject(FaultKind::kChangedEtag);
  const absl::Status status = ReadLarge(0, 1000);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("changed meanwhile"));
}

TEST_F(HubSourceTest, ReadsWithoutValidatorsAndWithMarkedOnes) {
  emulator_options_.tells_validators = false;
  Start();
  EXPECT_TRUE(ReadLarge(0, 1000).ok());
  emulator_options_.tells_validators = true;
  emulator_options_.etag_suffix = "-gzip";
  Start();
  EXPECT_TRUE(ReadLarge(0, 1000).ok());
  EXPECT_TRUE(ReadLarge(1000, 1000).ok());
}

TEST_F(HubSourceTest, DoesNotFollowARedirectToPlainHttpElsewhere) {
  options_.access.token = "hf_secret";
  Start();
  Inject(FaultKind::kRedirectToHttp);
  const absl::Status status = ReadLarge(0, 1000);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("192.0.2.1"));
  EXPECT_EQ(emulator_->num_cdn_requests(), 1);
}

// The Hub has nothing at a signed URL, and says so.
TEST_F(HubSourceTest, FollowsARedirectBackToTheHubWithTheTokenThereAlone) {
  emulator_options_.token = "hf_secret";
  options_.access.token = "hf_secret";
  StartEmulator();
  ASSERT_TRUE(Connect().ok());
  Inject(FaultKind::kRedirectToHub);
  const absl::Status status = ReadLarge(0, 1000);
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  const testing::HubRequest last = emulator_->requests().back();
  EXPECT_FALSE(last.to_cdn);
  EXPECT_THAT(last.target, HasSubstr("/signed/"));
  EXPECT_TRUE(last.has_authorization);
  EXPECT_EQ(emulator_->num_foreign_authorizations(), 0);
}

TEST_F(HubSourceTest, EndsRedirectsThatDoNotEnd) {
  Start();
  Inject(FaultKind::kRedirectForever, -1);
  const absl::Status status = ReadLarge(0, 1000);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(emulator_->num_cdn_requests(), 6);
}

TEST_F(HubSourceTest, OpensAtMostTheConfiguredConnections) {
  options_.http.max_connections = 3;
  emulator_options_.bytes_per_second = 4e6;
  Start();
  std::vector<std::thread> readers;
  for (int i = 0; i < 16; ++i) {
    readers.emplace_back(
        [&, i] { EXPECT_TRUE(ReadLarge(1000 * i, 128 << 10).ok()); });
  }
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(emulator_->num_cdn_requests(), 16);
  EXPECT_LE(emulator_->most_cdn_connections(), 3);
  EXPECT_GE(emulator_->most_cdn_connections(), 2);
  EXPECT_EQ(source_->counts().requests, 2u + 1u + 16u);
}

TEST_F(HubSourceTest, EndsEveryReadOnCancel) {
  options_.http.stall_timeout = absl::Seconds(60);
  options_.http.max_connections = 2;
  Start();
  Inject(FaultKind::kStalled, -1);
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back(
        [&] { EXPECT_TRUE(absl::IsCancelled(ReadLarge(0, 200000))); });
  }
  while (emulator_->num_cdn_requests() < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  source_->Cancel();
  for (auto& reader : readers) reader.join();
  EXPECT_TRUE(absl::IsCancelled(ReadLarge(0, 1)));
}

TEST_F(HubSourceTest, GoesThroughTheProxyOfTheEnvironment) {
  StartEmulator();
  setenv("no_proxy", "127.0.0.2", 1);
  setenv("http_proxy", emulator_->endpoint().c_str(), 1);
  options_.access = {"http://hub.invalid", "hf_secret", ""};
  const absl::Status connected = Connect();
  unsetenv("http_proxy");
  ASSERT_TRUE(connected.ok()) << connected;
  for (const auto& request : emulator_->requests()) {
    EXPECT_FALSE(request.has_authorization);
  }
}

TEST_F(HubSourceTest, GivesUpWhereNobodyListens) {
  options_.access.endpoint = "http://127.0.0.1:1";
  const absl::Status status = Connect();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tried 4 times"));
}

}  // namespace
}  // namespace deltafin
