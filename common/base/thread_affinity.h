// common/base/thread_affinity.h
//
// Names and places of threads.
#pragma once

#include <string>
#include <vector>

namespace deltafin {

// Names the calling thread for debuggers and top; the system keeps the first 15
// bytes.
void SetThreadName(const std::string& name);

// The CPUs this process may run on, ascending; never empty.
std::vector<int> AllowedCpus();

// Pins the calling thread to one CPU. Placement is a hint: a refusal by the
// system is ignored.
void PinThreadToCpu(int cpu);

}  // namespace deltafin
