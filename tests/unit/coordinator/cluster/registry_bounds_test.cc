// What a registry keeps is bounded whatever nodes do.

#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <sstream>

#include "common/base/log.h"
#include "tests/unit/coordinator/cluster/registry_fixture.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

// Lines logged while it lives.
class LogCapture {
 public:
  LogCapture() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "capture", std::make_shared<spdlog::sinks::ostream_sink_st>(text_)));
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }
  int num_lines() const {
    const std::string text = text_.str();
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(RegistryTest, TenThousandFlapsOfANodeTakeOneSlotAndFewLines) {
  LogCapture log;
  Serve(JoinOf(1));
  for (int flap = 0; flap < 10000; ++flap) {
    registry_->MemberFailed(0, absl::UnavailableError(std::string(5000, 'x')));
    clock_.Advance(absl::Milliseconds(6));
    Serve(JoinOf(1, 2 + flap));
  }
  EXPECT_EQ(placement()->num_slots(), 1);
  EXPECT_EQ(registry_->health().nodes_size(), 1);
  EXPECT_LE(registry_->health().ByteSizeLong(), 2048u);
  // 60 s: at most two minutes of the clock are touched.
  EXPECT_LE(log.num_lines(), 12);
  EXPECT_GE(log.num_lines(), 6);
}

TEST_F(RegistryTest, TenThousandFreshNodesAtOneHomeAreOne) {
  LogCapture log;
  for (int n = 0; n < 10000; ++n) {
    v1::JoinRequest join = JoinOf(n);
    join.set_address("127.0.0.1:7000");
    join.set_home(HomeOf(0));
    Serve(join);
  }
  EXPECT_EQ(registry_->health().nodes_size(), 1);
  EXPECT_LE(placement()->num_slots(), 2);
  EXPECT_LE(log.num_lines(), 12);
}

TEST_F(RegistryTest, GoneNodesAreForgotten) {
  for (int round = 0; round < 100; ++round) {
    Serve(JoinOf(round));
    Pass(absl::Seconds(6));
  }
  // All gone within ten minutes, 64 of them remembered.
  EXPECT_EQ(registry_->health().nodes_size(), 64);
  Pass(absl::Minutes(11));
  EXPECT_EQ(registry_->health().nodes_size(), 0);
  EXPECT_LE(placement()->num_slots(), 66);
}

TEST_F(RegistryTest, MembersAreAtMost256) {
  for (int n = 0; n < MemberTable::kMaxMembers; ++n) Serve(JoinOf(n));
  EXPECT_EQ(registry_->Join(JoinOf(999)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(registry_->health().nodes_size(), 256);
  // Half of them stay silent; their slots are given to others.
  Pass(absl::Seconds(4));
  for (int n = 0; n < 128; ++n) Beat(JoinOf(n));
  Pass(absl::Seconds(2));
  EXPECT_TRUE(registry_->Join(JoinOf(999)).ok());
  EXPECT_EQ(placement()->num_slots(), 256);
}

TEST_F(RegistryTest, EveryFieldOutOfBoundsIsNamed) {
  using Change = std::function<void(v1::JoinRequest*)>;
  const std::vector<std::pair<std::string, Change>> cases = {
      {"node_id", [](auto* j) { j->mutable_identity()->clear_node_id(); }},
      {"node_id",
       [](auto* j) { j->mutable_identity()->set_node_id("two words"); }},
      {"node_id",
       [](auto* j) {
         j->mutable_identity()->set_node_id(std::string(129, 'a'));
       }},
      {"version",
       [](auto* j) {
         j->mutable_identity()->set_version(std::string(2000, '1'));
       }},
      {"kernel",
       [](auto* j) { j->mutable_identity()->set_kernel("a\x1b[31m"); }},
      {"address", [](auto* j) { j->set_address("127.0.0.1"); }},
      {"address", [](auto* j) { j->set_address("127.0.0.1:0"); }},
      {"home", [](auto* j) { j->set_home("short"); }},
      {"incarnation", [](auto* j) { j->set_incarnation(0); }},
      {"highest_epoch", [](auto* j) { j->set_highest_epoch(UINT64_MAX); }},
      {"cores", [](auto* j) { j->mutable_capacity()->set_cores(70000); }},
      {"read_bytes_per_second",
       [](auto* j) { j->mutable_capacity()->set_read_bytes_per_second(-1); }},
      {"kernel_bytes_per_second",
       [](auto* j) {
         j->mutable_capacity()->set_kernel_bytes_per_second(
             std::numeric_limits<double>::quiet_NaN());
       }},
      {"holdings",
       [](auto* j) { j->mutable_holdings()->set_everything(false); }},
  };
  for (const auto& [field, change] : cases) {
    v1::JoinRequest join = JoinOf(1);
    change(&join);
    const absl::Status status = registry_->Join(join).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }
  EXPECT_EQ(registry_->health().nodes_size(), 0);
}

TEST_F(RegistryTest, WithoutCredentialsNodesOfOtherMachinesMayNotJoin) {
  v1::JoinRequest join = JoinOf(1);
  join.set_address("192.168.77.1:7400");
  EXPECT_TRUE(registry_->Join(join).ok());
  options_.loopback_only = true;
  Restart();
  const auto refused = registry_->Join(join);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(refused.status().message())
                .find("refused to connect to 192.168.77.1:7400"),
            std::string::npos);
  EXPECT_TRUE(registry_->Join(JoinOf(2)).ok());
}

}  // namespace
}  // namespace deltafin::testing
