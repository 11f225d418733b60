// spine_node/unit_layout.h
//
// Which tensors of the checkpoint make up a unit of the spine (one layer, or
// the head), with their shapes, formats and places in the unit's memory:
// loading, int8 files and memory arithmetic all walk this list. Pure;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/model_spec.h"
#include "common/base/tensor_names.h"
#include "spine_node/options.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

// How rows of the tensor become rows of the matrix.
enum class MatrixSource : uint8_t {
  kRows,        // as they are
  kHeadKeys,    // kv_b: the key rows of one head, transposed
  kHeadValues,  // kv_b: the value rows of one head
};

struct MatrixPlace {
  TensorSpec tensor = {};  // [rows, cols] bf16
  MatrixSource source = MatrixSource::kRows;
  int64_t first_row = 0;  // kHeadKeys, kHeadValues: first tensor row used
  LinearWeights* view = nullptr;  // rows, cols and format are already set
  bool in_rows = false;           // else in dense
  size_t offset = 0;              // of the tiles
  size_t scale_offset = 0;        // int8: of the row scales in rows
};

// What is done to the values once they are f32.
enum class VectorForm : uint8_t {
  kPlain,
  kProduct,   // times the values of `factor`
  kExp,       // exp of the first `count` values, by the kernel
  kHeadTaps,  // [n d, 1, 4] to [n][4][d]
};

struct VectorPlace {
  TensorSpec tensor = {};  // bf16 or f32
  int64_t count = 0;       // values kept
  VectorForm form = VectorForm::kPlain;
  TensorSpec factor = {};  // kProduct: [1, count] bf16
  const float** view = nullptr;
  size_t offset = 0;  // in dense
};

struct UnitLayout {
  std::string name;  // "layer-07", "head"
  int kda_head_dim = 0;
  std::vector<MatrixPlace> matrices;
  std::vector<VectorPlace> vectors;
  size_t dense_bytes = 0;
  size_t rows_bytes = 0;
};

// The layout of a layer, whose views are those of `layer`, which must outlive
// it at the same address. Also sets the kind fields and the views' shapes.
UnitLayout LayOutLayer(const ModelSpec& spec, int layer_index,
                       SpinePrecision precision, LayerWeights* layer);
UnitLayout LayOutHead(const ModelSpec& spec, SpinePrecision precision,
                      HeadWeights* head);

// Points every view into the memory. REQUIRES: memory has the layout's sizes;
// memory.rows may be empty, then BindRows does the rest.
void BindViews(const UnitLayout& layout, const WeightMemory& memory);
// Points the views of the matrices in rows to `rows`, layout.rows_bytes long.
void BindRows(const UnitLayout& layout, const uint8_t* rows);

}  // namespace deltafin
