// kernels/expert_weights.h
//
// Shape of a routed expert and where its slices lie in a record
// (docs/numerics.md section 3). Pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deltafin {

inline constexpr int kSliceColumns =
    256;  // intermediate columns of a full slice
inline constexpr int kMxfp4Group =
    32;  // columns that share one e8m0 scale byte
inline constexpr size_t kRecordAlignment = 4096;

// One routed expert: gate (w1) and up (w3) are [F, L], down (w2) is [L, F].
// REQUIRES: both are positive multiples of 32.
struct ExpertShape {
  int latent_size = 0;        // L
  int intermediate_size = 0;  // F

  friend bool operator==(const ExpertShape&, const ExpertShape&) = default;

  constexpr int num_slices() const {
    return (intermediate_size + kSliceColumns - 1) / kSliceColumns;
  }
  // Intermediate columns of slice `slice`: 256, or what is left for the last
  // one.
  constexpr int slice_columns(int slice) const {
    const int left = intermediate_size - slice * kSliceColumns;
    return left < kSliceColumns ? left : kSliceColumns;
  }
  // Bytes of each of the slice's three matrices.
  constexpr size_t slice_matrix_bytes(int slice) const {
    return size_t{17} * slice_columns(slice) * (latent_size / kMxfp4Group);
  }
  // Offset of a slice in the record; slice == num_slices() gives the payload
  // size.
  constexpr size_t slice_offset(int slice) const {
    return slice >= num_slices() ? payload_bytes()
                                 : size_t{408} * latent_size * slice;
  }
  constexpr size_t payload_bytes() const {
    return size_t{51} * intermediate_size * (latent_size / kMxfp4Group);
  }
  constexpr size_t stride_bytes() const {
    return (payload_bytes() + kRecordAlignment - 1) / kRecordAlignment *
           kRecordAlignment;
  }
};

// SiTU(g, u) = beta tanh(g / beta) sigmoid(g) * linear_beta tanh(u /
// linear_beta). Source: config `activation_situ_beta`,
// `activation_situ_linear_beta`. linear_beta 0 means the key is absent: u is
// taken as it is.
struct SituParams {
  float beta = 4.0f;
  float linear_beta = 25.0f;
};

// A contiguous run of slices [first, first + count) of one expert.
struct SliceRun {
  int first = 0;
  int count = 0;
  friend bool operator==(const SliceRun&, const SliceRun&) = default;
};

}  // namespace deltafin
