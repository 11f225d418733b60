#include "expert_node/disk_measurement.h"

#include <gtest/gtest.h>

#include "common/base/file_io.h"
#include "expert_node/data_folder.h"
#include "expert_node/kernel_rate.h"
#include "kernels/kernel_registry.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

TEST(DiskMeasurementTest, ReadsTheShardsAgainAndAgain) {
  const TempDir dir;
  const std::string bytes(100000, 'x');
  ASSERT_TRUE(WriteFileAtomically(dir.File("a.safetensors"), bytes).ok());
  ASSERT_TRUE(WriteFileAtomically(dir.File("b.safetensors"), bytes).ok());
  const auto rates = MeasureDisk(dir.path(), absl::Milliseconds(100));
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_GT(rates->first_second, 0);
  EXPECT_GT(rates->sustained, 0);
}

TEST(DiskMeasurementTest, ReadsOfRecordsWhatIsOnTheDrive) {
  const DiskFolder folder;
  const auto records = OpenRecords(folder.path(), kRaggedShape);
  EXPECT_EQ(MeasureDisk(folder.path(), absl::Seconds(1)).status().code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(InstallGenerated(*records, {2, 3}, {1, 1}).ok());
  const auto rates = MeasureDisk(folder.path(), absl::Milliseconds(100));
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_GT(rates->sustained, 0);
}

TEST(DiskMeasurementTest, RefusesAFolderWithoutExperts) {
  const TempDir dir;
  EXPECT_EQ(MeasureDisk(dir.path(), absl::Seconds(1)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(DataFolderRateTest, KeepsTheRateAndRefusesADamagedOne) {
  const TempDir dir;
  {
    auto folder = DataFolder::Open(dir.path());
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ((*folder)->sustained_read(), 0);
    ASSERT_TRUE((*folder)->KeepSustainedRead(1.5e9).ok());
  }
  EXPECT_EQ((*DataFolder::Open(dir.path()))->sustained_read(), 1.5e9);
  ASSERT_TRUE(WriteFileAtomically(dir.File("read_rate"), "fast\n").ok());
  EXPECT_EQ(DataFolder::Open(dir.path()).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(KernelRateTest, MeasuresEveryKernelThatRunsHere) {
  for (const KernelTarget* kernel : CompiledKernels()) {
    if (!kernel->supported()) continue;
    const auto rate = MeasureKernelRate(kernel->expert, {96, 256}, {}, 2,
                                        absl::Milliseconds(1));
    ASSERT_TRUE(rate.ok()) << rate.status();
    EXPECT_GT(*rate, 0) << kernel->name;
  }
}

}  // namespace
}  // namespace deltafin
