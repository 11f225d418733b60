#include "bench/record_drive.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/measurement.h"
#include "kernels/expert_tiles.h"

namespace deltafin::bench {
namespace {

void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

double CpuOf(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + time.tv_nsec * 1e-9;
}

// A file's mapping.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd_ < 0 || fstat(fd_, &info) != 0) Fail(path.c_str());
    size_ = info.st_size;
    void* const at = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
    if (at == MAP_FAILED) Fail("mmap");
    bytes_ = static_cast<const uint8_t*>(at);
  }
  ~Mapping() {
    munmap(const_cast<uint8_t*>(bytes_), size_);
    posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    close(fd_);
  }
  const uint8_t* bytes() const { return bytes_; }
  size_t size() const { return size_; }

 private:
  int fd_;
  const uint8_t* bytes_;
  size_t size_;
};

}  // namespace

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "storage_tiers: %s\n", status.ToString().c_str());
  std::exit(1);
}

RecordModel BenchModel(int num_layers) {
  return {kRecordShape, num_layers, 0, kExpertsPerLayer, std::string(64, '0')};
}

double InstallRecords(RecordStore& store) {
  const std::vector<uint8_t> record = MakeSampleRecord();
  std::vector<const uint8_t*> slices;
  for (int s = 0; s < kRecordShape.num_slices(); ++s) {
    slices.push_back(record.data() + kRecordShape.slice_offset(s));
  }
  const int num_layers = store.model().num_layers;
  const Measured took = Measure([&] {
    for (int i = 0; i < num_layers * kExpertsPerLayer; ++i) {
      Require(store.Install({i / kExpertsPerLayer, i % kExpertsPerLayer},
                            {0, kRecordShape.num_slices()}, slices));
    }
  });
  return kLayerBytes * num_layers / took.wall_s;
}

Measured Measure(const std::function<void()>& work) {
  const double cpu = CpuOf(CLOCK_PROCESS_CPUTIME_ID);
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> wall =
      std::chrono::steady_clock::now() - begin;
  return {wall.count(), CpuOf(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

double ThreadCpu() { return CpuOf(CLOCK_THREAD_CPUTIME_ID); }

PlainReader::PlainReader(const std::string& path)
    : fd_(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)) {
  if (fd_ < 0) Fail(path.c_str());
}

PlainReader::~PlainReader() { close(fd_); }

void PlainReader::Read(int expert, SliceRun run, uint8_t* out) const {
  const size_t first = kRecordShape.slice_offset(run.first);
  const size_t bytes = kRecordShape.slice_offset(run.first + run.count) - first;
  const auto offset =
      static_cast<off_t>(kRecordShape.stride_bytes() * expert + first);
  const ssize_t got = pread(fd_, out, bytes, offset);
  if (got != static_cast<ssize_t>(bytes)) Fail("pread");
}

double CachedShare(const std::string& path) {
  const Mapping mapping(path);
  std::vector<unsigned char> pages((mapping.size() + 4095) / 4096);
  if (mincore(const_cast<uint8_t*>(mapping.bytes()), mapping.size(),
              pages.data()) != 0) {
    Fail("mincore");
  }
  return static_cast<double>(
             std::count_if(pages.begin(), pages.end(),
                           [](unsigned char page) { return page & 1; })) /
         static_cast<double>(pages.size());
}

double HugePageShare(const void* at, size_t size) {
  std::ifstream maps("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(at);
  bool covers = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    size_t kib = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2) {
      covers = begin <= address && address < end;
    } else if (covers &&
               std::sscanf(line.c_str(), "AnonHugePages: %zu", &kib) == 1) {
      return std::min(
          1.0, static_cast<double>(kib) * 1024 / static_cast<double>(size));
    }
  }
  return 0;
}

double FaultThroughMapping(const std::string& path) {
  const Mapping mapping(path);
  uint64_t sum = 0;
  const Measured took = Measure([&] {
    for (size_t i = 0; i < mapping.size(); i += 4096) sum += mapping.bytes()[i];
  });
  Consume(sum);
  return took.wall_s;
}

}  // namespace deltafin::bench
