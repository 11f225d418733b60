// bench/flags.h
//
// The command line of a bench: switches and flags with a value.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace deltafin::bench {

class Flags {
 public:
  // `help` is printed for --help, and after what is wrong with a flag.
  Flags(std::string program, std::string help)
      : program_(std::move(program)), help_(std::move(help)) {}

  // What a flag sets must outlive Parse.
  void AddSwitch(const std::string& name, bool& on);
  void AddNumber(const std::string& name, int& number, int least = 1,
                 int most = std::numeric_limits<int>::max());
  // Numbers with commas between, each from `least` to `most`.
  void AddNumbers(const std::string& name, std::vector<int>& numbers, int least,
                  int most);
  void AddPositive(const std::string& name, double& number);
  void AddText(const std::string& name, std::string& text);
  // `take` returns whether the value is one for this flag.
  void Add(const std::string& name,
           std::function<bool(const std::string& value)> take);

  // Ends the program after --help (0) and for what it does not know (64).
  void Parse(int argc, char** argv) const;
  [[noreturn]] void Refuse(const std::string& why) const;

 private:
  struct Flag {
    std::string name;
    bool* on = nullptr;  // null: it has a value
    std::function<bool(const std::string& value)> take;
  };

  const std::string program_;
  const std::string help_;
  std::vector<Flag> flags_;
};

}  // namespace deltafin::bench
