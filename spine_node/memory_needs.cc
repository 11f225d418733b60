#include "spine_node/memory_needs.h"

#include <algorithm>

#include "spine_node/cpu/sequence_state.h"
#include "spine_node/cpu/step.h"
#include "spine_node/spine_file.h"
#include "spine_node/unit_layout.h"

namespace deltafin {

SpineMemoryNeeds SpineNeeds(const ModelSpec& spec, SpinePrecision precision,
                            int first_layer) {
  SpineMemoryNeeds needs;
  const auto add = [&needs, precision](const UnitLayout& unit) {
    needs.weight_bytes += unit.dense_bytes + unit.rows_bytes;
    if (precision == SpinePrecision::kBf16) return;
    needs.int8_file_bytes += kSpineFileHeaderBytes + unit.rows_bytes;
  };
  for (int i = first_layer; i < spec.num_hidden_layers; ++i) {
    LayerWeights layer;
    const UnitLayout unit = LayOutLayer(spec, i, precision, &layer);
    needs.layer_row_bytes.push_back(unit.rows_bytes);
    add(unit);
  }
  HeadWeights head;
  add(LayOutHead(spec, precision, &head));
  const SequenceLayout sequence(spec, first_layer);
  needs.sequence_fixed_bytes = sequence.fixed_bytes();
  needs.sequence_token_bytes = sequence.token_bytes();
  needs.sequence_draft_bytes = sequence.draft_bytes();
  needs.step_token_bytes = Step::TokenBytes(spec);
  return needs;
}

}  // namespace deltafin
