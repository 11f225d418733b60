// Stands in for libFuzzer: runs the target on every seed file, then on a fixed
// number of mutations of them that depend on nothing but the seeds.
//
//   name [--mutations N] [--only I] [--save FILE] SEED_FILE_OR_FOLDER...
//
// A failure is repeated by the last printed range with --only; --save keeps
// that input.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

namespace {

using deltafin::Bytes;
using deltafin::Mutator;
namespace fs = std::filesystem;

struct Arguments {
  long mutations = 0;
  long only = -1;
  std::string save;
  std::vector<std::string> seeds;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool has_value = i + 1 < argc;
    if (flag == "--mutations" && has_value) {
      arguments.mutations = std::atol(argv[++i]);
    } else if (flag == "--only" && has_value) {
      arguments.only = std::atol(argv[++i]);
    } else if (flag == "--save" && has_value) {
      arguments.save = argv[++i];
    } else {
      arguments.seeds.push_back(flag);
    }
  }
  return arguments;
}

Bytes ReadSeed(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

std::vector<Bytes> ReadSeeds(const std::vector<std::string>& places) {
  std::vector<fs::path> paths;
  for (const std::string& place : places) {
    if (!fs::is_directory(place)) {
      paths.push_back(place);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(place)) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> seeds;
  for (const fs::path& path : paths) seeds.push_back(ReadSeed(path));
  return seeds;
}

void RunOne(const Bytes& input) {
  // An exact copy on the heap, so that a read past its end is seen by ASan.
  const std::vector<uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  const std::vector<Bytes> seeds = ReadSeeds(arguments.seeds);
  if (seeds.empty()) {
    std::fprintf(stderr, "no seed inputs\n");
    return 1;
  }
  if (arguments.only < 0) {
    for (const Bytes& seed : seeds) RunOne(seed);
    RunOne({});
  }
  for (long i = 0; i < arguments.mutations; ++i) {
    if (arguments.only >= 0 && arguments.only != i) continue;
    if (i % 1000 == 0) {
      std::printf("mutations %ld to %ld\n", i, i + 999);
      std::fflush(stdout);
    }
    const Bytes input = Mutator(i).Mutate(seeds);
    if (arguments.only == i && !arguments.save.empty()) {
      std::ofstream(arguments.save, std::ios::binary)
          .write(reinterpret_cast<const char*>(input.data()), input.size());
    }
    RunOne(input);
  }
  std::printf("%zu seeds and %ld mutations ran\n", seeds.size(),
              arguments.mutations);
}
