#include "bench/flags.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace deltafin::bench {

void Flags::AddSwitch(const std::string& name, bool& on) {
  flags_.push_back({name, &on, nullptr});
}

void Flags::AddNumber(const std::string& name, int& number, int least,
                      int most) {
  Add(name, [&number, least, most](const std::string& value) {
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    return error == std::errc() && stop == end && number >= least &&
           number <= most;
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
