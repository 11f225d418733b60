// A target with a bug, to show that a fuzz run ends in failure when it should:
// it cannot stand a number that only a mutation brings in.

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (text.find("[null") != std::string_view::npos) std::_Exit(1);
  return 0;
}
