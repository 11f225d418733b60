#include "spine_node/memory_needs.h"

#include <algorithm>

#include "spine_node/cpu/sequence_state.h"
#include "spine_node/cpu/step.h"
#include "spine_node/spine_file.h"
#include "spine_node/unit_layout.h"

namespace deltafin {

SpineMemoryNeeds SpineNeeds(const ModelSpec& spec, SpinePrecision precision) {
  SpineMemoryNeeds needs;
  const auto add = [&needs](const UnitLayout& unit) {
    needs.weight_bytes += unit.dense_bytes + unit.int8_bytes;
    if (unit.int8_bytes == 0) return;
    needs.int8_file_bytes += kSpineFileHeaderBytes + unit.int8_bytes;
  };
  for (int i = 0; i < spec.num_hidden_layers; ++i) {
    LayerWeights layer;
    add(LayOutLayer(spec, i, precision, &layer));
  }
  HeadWeights head;
  add(LayOutHead(spec, precision, &head));
  const SequenceLayout sequence(spec);
  needs.sequence_fixed_bytes = sequence.fixed_bytes();
  needs.sequence_token_bytes = sequence.token_bytes();
  needs.sequence_draft_bytes = sequence.draft_bytes();
  needs.step_token_bytes = Step::TokenBytes(spec);
  return needs;
}

}  // namespace deltafin
