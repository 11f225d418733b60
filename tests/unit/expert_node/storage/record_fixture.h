// tests/unit/expert_node/storage/record_fixture.h
//
// A record store of generated experts in a folder on a disk file system.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "expert_node/storage/record_store.h"
#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {

// Three slices, none on a page but the first, the last one short.
inline constexpr ExpertShape kRaggedShape = {96, 544};
// Three slices on pages: read in place, all at once.
inline constexpr ExpertShape kPagedShape = {512, 768};
// Two slices of the full model's size.
inline constexpr ExpertShape kWideShape = {3584, 512};

inline RecordModel RecordModelOf(const ExpertShape& shape) {
  return {shape, 4, 1, 8, std::string(64, 'a')};
}

// Below the working directory, which is the build folder: tmpfs would accept
// what a drive refuses.
class DiskFolder {
 public:
  DiskFolder() {
    std::string path =
        (std::filesystem::current_path() / "records-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr) << path;
    path_ = path;
  }
  ~DiskFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  DiskFolder(const DiskFolder&) = delete;
  DiskFolder& operator=(const DiskFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline RecordStoreOptions SmallReserve() {
  RecordStoreOptions options;
  options.reserve_bytes = 0;
  return options;
}

inline std::unique_ptr<RecordStore> OpenRecords(
    const std::string& folder, const ExpertShape& shape,
    const RecordStoreOptions& options = SmallReserve()) {
  auto store = RecordStore::Open(folder, RecordModelOf(shape), options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

using Slices = std::vector<std::vector<uint8_t>>;

inline Slices PackedSlices(const ExpertShape& shape, ExpertKey key,
                           SliceRun run) {
  const GeneratedExpert expert(shape, key);
  Slices slices;
  for (int i = 0; i < run.count; ++i) {
    slices.push_back(expert.Packed(run.first + i));
  }
  return slices;
}

inline absl::Status InstallSlices(RecordStore& store, ExpertKey key,
                                  SliceRun run, const Slices& slices,
                                  std::string_view identity = {}) {
  std::vector<const uint8_t*> in;
  for (const auto& slice : slices) in.push_back(slice.data());
  return store.Install(key, run, in, identity);
}

inline absl::Status InstallGenerated(RecordStore& store, ExpertKey key,
                                     SliceRun run) {
  return InstallSlices(store, key, run, PackedSlices(store.shape(), key, run));
}

// What a read gave: the slices that became ready, by position in the run;
// others are empty.
struct ReadResult {
  absl::StatusOr<uint64_t> bytes;
  Slices ready;
};

// Destinations on pages, as the RAM tier's.
inline ReadResult ReadRun(ExpertStore& store, ExpertKey key, SliceRun run) {
  const ExpertShape& shape = store.shape();
  const auto bytes_of = [&](int s) {
    return shape.slice_offset(s + 1) - shape.slice_offset(s);
  };
  std::vector<AlignedBuffer> buffers;
  std::vector<uint8_t*> out;
  for (int i = 0; i < run.count; ++i) {
    buffers.push_back(*AlignedBuffer::Allocate(bytes_of(run.first + i)));
    out.push_back(buffers.back().data());
  }
  ReadResult result{0, Slices(run.count)};
  result.bytes = store.Read(key, run, out, [&](int slice) {
    const int i = slice - run.first;
    EXPECT_TRUE(result.ready[i].empty()) << "slice " << slice << " twice";
    result.ready[i].assign(out[i], out[i] + bytes_of(slice));
  });
  return result;
}

// Replaces bytes of a file of the store.
inline void Overwrite(const std::string& path, uint64_t offset,
                      const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file.good()) << path;
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

}  // namespace deltafin
