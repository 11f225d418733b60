// bench/site.h
//
// Where the processes of a bench run: all on the loopback interface, or each in
// a place of its own on a LAN in a box.
#pragma once

#include <memory>
#include <string>

namespace deltafin::bench {

class Site {
 public:
  virtual ~Site() = default;

  // The address under which the others reach a place.
  virtual std::string host(int place) const = 0;
  // Moves the calling thread, and those it starts, to a place. Ends the program
  // on an error.
  virtual void Enter(int place) const = 0;
};

std::unique_ptr<Site> LoopbackSite();

// 1 Gbit/s and 0.3 ms one way between any two of `num_places`; gone with the
// object. Needs root; ends the program where there can be no such LAN.
std::unique_ptr<Site> LanSite(int num_places);

}  // namespace deltafin::bench
