// kernels/cuda/absent.h
//
// What the functions of a program without CUDA answer. Private to
// kernels/cuda/.
#pragma once

#include <string>

namespace deltafin::cuda {

// False, with the reason in *why.
inline bool SayAbsent(std::string* why) {
  *why = "this program was built without CUDA (cmake -DDELTAFIN_CUDA=ON)";
  return false;
}

}  // namespace deltafin::cuda
