// tests/testing/golden_file.h
//
// Reads the trusted safetensors fixtures of tests/golden with the standard
// library alone, so that kernel tests build everywhere. Ends the program with a
// message if a file or tensor is missing; bytes from outside go through
// common/base/safetensors.h instead.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace deltafin::testing {

class GoldenFile {
 public:
  // Reads all of `path`.
  explicit GoldenFile(const std::string& path);

  // The values of tensor `name`, row-major. T must have the dtype's size.
  template <typename T>
  std::vector<T> Get(const std::string& name) const {
    const Tensor& tensor = Find(name, sizeof(T));
    std::vector<T> values(tensor.size / sizeof(T));
    std::memcpy(values.data(), bytes_.data() + tensor.offset, tensor.size);
    return values;
  }

  const std::vector<int>& Shape(const std::string& name) const {
    return Find(name, 0).shape;
  }

 private:
  struct Tensor {
    std::string dtype;
    std::vector<int> shape;
    size_t offset;
    size_t size;
  };

  // value_size 0: any.
  const Tensor& Find(const std::string& name, size_t value_size) const;
  void ParseHeader(const std::string& header, size_t begin);

  std::string path_;
  std::vector<char> bytes_;
  std::map<std::string, Tensor> tensors_;
};

// tests/golden/ops/<name>.safetensors of this source tree.
GoldenFile OpenGoldenOperator(const std::string& name);

}  // namespace deltafin::testing
