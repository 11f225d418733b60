// An installation that is killed very often.

#include <gtest/gtest.h>

#include "tests/integration/setup_case.h"

namespace deltafin::testing {
namespace {

TEST(SetupLongTest, FortyKillsEndWithTheSameFolder) { CheckKilledSetup(40, 2); }

}  // namespace
}  // namespace deltafin::testing
