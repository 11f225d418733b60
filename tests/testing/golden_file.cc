#include "tests/testing/golden_file.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>

namespace deltafin::testing {
namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& what) {
  std::fprintf(stderr, "golden file %s: %s\n", path.c_str(), what.c_str());
  std::abort();
}

std::vector<int> ParseNumbers(const std::string& list) {
  static const std::regex number("[0-9]+");
  std::vector<int> values;
  for (std::sregex_iterator it(list.begin(), list.end(), number), end;
       it != end; ++it) {
    values.push_back(std::stoi(it->str()));
  }
  return values;
}

size_t DtypeSize(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32") return 4;
  return dtype == "U8" ? 1 : 2;
}

}  // namespace

GoldenFile::GoldenFile(const std::string& path) : path_(path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Fail(path, "cannot be opened");
  bytes_.assign(std::istreambuf_iterator<char>(file), {});
  uint64_t header_size = 0;
  if (bytes_.size() < sizeof(header_size)) Fail(path, "is too short");
  std::memcpy(&header_size, bytes_.data(), sizeof(header_size));
  const size_t begin = sizeof(header_size) + header_size;
  if (begin > bytes_.size()) Fail(path, "is too short");
  ParseHeader(std::string(bytes_.data() + sizeof(header_size), header_size),
              begin);
}

void GoldenFile::ParseHeader(const std::string& header, size_t begin) {
  static const std::regex entry(
      "\"([^\"]+)\": ?\\{\"dtype\": ?\"(\\w+)\", ?\"shape\": ?\\[([0-9, ]*)\\],"
      " ?\"data_offsets\": ?\\[(\\d+), ?(\\d+)\\]\\}");
  for (std::sregex_iterator it(header.begin(), header.end(), entry), end;
       it != end; ++it) {
    const size_t first = std::stoull((*it)[4]);
    const size_t last = std::stoull((*it)[5]);
    tensors_[(*it)[1]] = {(*it)[2], ParseNumbers((*it)[3]), begin + first,
                          last - first};
  }
}

const GoldenFile::Tensor& GoldenFile::Find(const std::string& name,
                                           size_t value_size) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) Fail(path_, "has no tensor " + name);
  const Tensor& tensor = it->second;
  if (value_size != 0 && value_size != DtypeSize(tensor.dtype)) {
    Fail(path_, name + " is " + tensor.dtype);
  }
  if (tensor.offset + tensor.size > bytes_.size()) Fail(path_, "is too short");
  return tensor;
}

GoldenFile OpenGoldenOperator(const std::string& name) {
  return GoldenFile(DELTAFIN_SOURCE_DIR "/tests/golden/ops/" + name +
                    ".safetensors");
}

}  // namespace deltafin::testing
