#include "bench/flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace deltafin::bench {
namespace {

bool ReadNumber(std::string_view text, int least, int most, int& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && number >= least &&
         number <= most;
}

}  // namespace

void Flags::AddSwitch(const std::string& name, bool& on) {
  flags_.push_back({name, &on, nullptr});
}

void Flags::AddNumber(const std::string& name, int& number, int least,
                      int most) {
  Add(name, [&number, least, most](const std::string& value) {
    return ReadNumber(value, least, most, number);
  });
}

void Flags::AddNumbers(const std::string& name, std::vector<int>& numbers,
                       int least, int most) {
  Add(name, [&numbers, least, most](std::string_view value) {
    numbers.clear();
    for (size_t comma = 0; comma != value.npos;) {
      comma = value.find(',');
      const std::string_view word = value.substr(0, comma);
      if (!ReadNumber(word, least, most, numbers.emplace_back())) return false;
      if (comma != value.npos) value.remove_prefix(comma + 1);
    }
    return true;
  });
}

void Flags::AddPositive(const std::string& name, double& number) {
  Add(name, [&number](const std::string& value) {
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    return error == std::errc() && stop == end && std::isfinite(number) &&
           number > 0;
  });
}

void Flags::AddText(const std::string& name, std::string& text) {
  Add(name, [&text](const std::string& value) {
    text = value;
    return true;
  });
}

void Flags::Add(const std::string& name,
                std::function<bool(const std::string& value)> take) {
  flags_.push_back({name, nullptr, std::move(take)});
}

void Flags::Parse(int argc, char** argv) const {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") {
      std::fputs(help_.c_str(), stdout);
      std::exit(0);
    }
    const auto flag = std::ranges::find(flags_, name, &Flag::name);
    if (flag == flags_.end()) Refuse("unknown flag " + name);
    if (flag->on != nullptr) {
      *flag->on = true;
      continue;
    }
    if (++i == argc) Refuse(name + " has no value");
    if (!flag->take(argv[i])) Refuse(name + " does not take " + argv[i]);
  }
}

void Flags::Refuse(const std::string& why) const {
  std::fprintf(stderr, "%s: %s\n%s", program_.c_str(), why.c_str(),
               help_.c_str());
  std::exit(64);
}

}  // namespace deltafin::bench
