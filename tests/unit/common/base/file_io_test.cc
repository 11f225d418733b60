#include "common/base/file_io.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::vector<std::string> FilesIn(const TempDir& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    names.push_back(entry.path().filename());
  }
  return names;
}

TEST(ReadFileTest, ReturnsTheWholeFile) {
  TempDir dir;
  const std::string contents("a\0b\n", 4);
  ASSERT_TRUE(WriteFileAtomically(dir.File("f"), contents).ok());
  const auto read = ReadFile(dir.File("f"), 4);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, contents);
}

TEST(ReadFileTest, RefusesMoreThanTheBound) {
  TempDir dir;
  ASSERT_TRUE(WriteFileAtomically(dir.File("f"), "12345").ok());
  const absl::Status status = ReadFile(dir.File("f"), 4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("has 5 bytes"), absl::string_view::npos);
}

TEST(ReadFileTest, RefusesWhatIsNoRegularFile) {
  TempDir dir;
  EXPECT_EQ(ReadFile(dir.path(), 100).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(dir.File("pipe"), 100).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFile(dir.File("nothing"), 100).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ReadToEndTest, TakesWhatComesThroughAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor out(ends[0]);
  std::string all;
  {
    const FileDescriptor in(ends[1]);
    for (int i = 0; i < 3000; ++i) all += "0123456789";
    ASSERT_EQ(write(in.get(), all.data(), all.size()), std::ssize(all));
  }
  EXPECT_EQ(ReadToEnd(out.get(), all.size(), "pipe").value(), all);
}

TEST(ReadToEndTest, RefusesMoreThanTheBound) {
  TempDir dir;
  ASSERT_TRUE(WriteFileAtomically(dir.File("f"), "12345").ok());
  const auto fd = OpenForReading(dir.File("f"));
  ASSERT_TRUE(fd.ok());
  const absl::Status status = ReadToEnd(fd->get(), 4, "that").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "that has more than the 4 bytes allowed");
}

TEST(ReadExactlyTest, SaysWhereTheFileEnds) {
  TempDir dir;
  ASSERT_TRUE(WriteFileAtomically(dir.File("f"), "12345").ok());
  const auto fd = OpenForReading(dir.File("f"));
  ASSERT_TRUE(fd.ok());
  uint8_t out[4];
  EXPECT_TRUE(ReadExactly(fd->get(), 1, out, "f").ok());
  EXPECT_EQ(out[0], '2');
  const absl::Status status = ReadExactly(fd->get(), 2, out, "f");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("ends after 3"), absl::string_view::npos);
}

TEST(AtomicFileTest, AppearsOnlyWhenCommitted) {
  TempDir dir;
  auto file = AtomicFile::Create(dir.File("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append(Bytes("hello ")).ok());
  ASSERT_TRUE(file->Append(Bytes("world")).ok());
  EXPECT_FALSE(std::filesystem::exists(dir.File("f")));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(*ReadFile(dir.File("f"), 100), "hello world");
  EXPECT_EQ(FilesIn(dir).size(), 1u);
}

TEST(AtomicFileTest, LeavesNothingBehindWhenDropped) {
  TempDir dir;
  ASSERT_TRUE(WriteFileAtomically(dir.File("f"), "old").ok());
  {
    auto file = AtomicFile::Create(dir.File("f"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Append(Bytes("new")).ok());
    const AtomicFile moved = *std::move(file);
  }
  EXPECT_EQ(FilesIn(dir), std::vector<std::string>{"f"});
  EXPECT_EQ(*ReadFile(dir.File("f"), 100), "old");
}

TEST(AtomicFileTest, LeavesNothingBehindWhenTheProcessIsKilled) {
  TempDir dir;
  const int nameless = open(dir.path().c_str(), O_TMPFILE | O_RDWR, 0600);
  if (nameless < 0) GTEST_SKIP() << "no files without names in " << dir.path();
  close(nameless);
  const pid_t child = fork();
  if (child == 0) {
    const auto file = AtomicFile::Create(dir.File("f"));
    kill(getpid(), file.ok() ? SIGKILL : SIGTERM);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(FilesIn(dir), std::vector<std::string>{});
}

TEST(AtomicFileTest, WhatAKilledCommitLeftIsRemovedAndNothingElse) {
  TempDir dir;
  for (const char* name : {"f", "f.tmp-12-0", "f.tmp-7-31.part", "f.tmp-x-1",
                           "f.tmp-12", ".tmp-1-2", "a.tmp-1-2.tmp-3-4"}) {
    ASSERT_TRUE(WriteFileAtomically(dir.File(name), "x").ok());
  }
  RemoveAbandonedFiles(dir.path());
  EXPECT_THAT(FilesIn(dir),
              ::testing::UnorderedElementsAre(
                  "f", "f.tmp-7-31.part", "f.tmp-x-1", "f.tmp-12", ".tmp-1-2"));
  RemoveAbandonedFiles(dir.File("none"));
}

TEST(AtomicFileTest, WritesAtOffsetsInAnyOrder) {
  TempDir dir;
  auto file = AtomicFile::Create(dir.File("f"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->WriteAt(3, Bytes("def")).ok());
  ASSERT_TRUE(file->WriteAt(0, Bytes("abc")).ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(*ReadFile(dir.File("f"), 100), "abcdef");
}

TEST(AtomicFileTest, ReplacesNothingButRegularFiles) {
  TempDir dir;
  ASSERT_EQ(mkfifo(dir.File("fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(dir.File("folder"));
  std::filesystem::create_symlink(dir.File("target"), dir.File("link"));
  for (const char* name : {"fifo", "folder", "link"}) {
    const auto status = AtomicFile::Create(dir.File(name)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find(name), absl::string_view::npos) << status;
  }
  EXPECT_EQ(FilesIn(dir).size(), 3u);
}

TEST(AtomicFileTest, NamesAMissingDirectory) {
  const absl::Status status = WriteFileAtomically("/nowhere/at/all", "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/nowhere/at/all"), absl::string_view::npos);
}

}  // namespace
}  // namespace deltafin
