#include "coordinator/engine/expert_trace.h"

#include <algorithm>

namespace deltafin {
namespace {

void AddPart(const char* where, double seconds,
             google::protobuf::RepeatedPtrField<v1::Explanation::Part>* parts) {
  v1::Explanation::Part* const part = parts->Add();
  part->set_where(where);
  part->set_seconds(seconds);
}

}  // namespace

ExpertTrace::ExpertTrace() : layers_(kMaxLayers) {}

void ExpertTrace::Clear() {
  sum_ = LayerTrace();
  num_layers_ = 0;
}

void ExpertTrace::Add(const LayerTrace& layer) {
  const double replan = std::clamp(layer.replan, 0.0, layer.waited);
  const double told = layer.queue + layer.read + layer.compute + layer.link;
  const double hedge =
      std::clamp(layer.hedge, replan, std::max(replan, layer.waited)) - replan;
  const double rest = std::max(0.0, layer.waited - replan - hedge);
  sum_.waited += layer.waited;
  sum_.replan += replan;
  sum_.hedge += hedge;
  if (told > 0) {
    sum_.queue += rest * (layer.queue / told);
    sum_.read += rest * (layer.read / told);
    sum_.compute += rest * (layer.compute / told);
    sum_.link += rest * (layer.link / told);
  } else {
    sum_.link += rest;
  }
  Keep(layer);
}

void ExpertTrace::Add(const ExpertTrace& other) {
  sum_.waited += other.sum_.waited;
  sum_.replan += other.sum_.replan;
  sum_.hedge += other.sum_.hedge;
  sum_.queue += other.sum_.queue;
  sum_.read += other.sum_.read;
  sum_.compute += other.sum_.compute;
  sum_.link += other.sum_.link;
  for (size_t i = 0; i < other.num_layers_; ++i) {
    LayerTrace layer = other.layers_[i].times;
    layer.node = other.layers_[i].node;
    layer.given_up = other.layers_[i].given_up;
    layer.late = other.layers_[i].late;
    Keep(layer);
  }
}

void ExpertTrace::Keep(const LayerTrace& layer) {
  size_t place = num_layers_;
  while (place > 0 && layers_[place - 1].times.waited < layer.waited) --place;
  if (place == kMaxLayers) return;
  num_layers_ = std::min(num_layers_ + 1, kMaxLayers);
  std::rotate(layers_.begin() + place, layers_.begin() + num_layers_ - 1,
              layers_.begin() + num_layers_);
  KeptLayer& kept = layers_[place];
  kept.times = layer;
  kept.node.assign(layer.node.substr(0, kMaxNameSize));
  kept.given_up.assign(layer.given_up.substr(0, kMaxNameSize));
  kept.late.assign(layer.late.substr(0, kMaxNameSize));
  kept.times.node = {};
  kept.times.given_up = {};
  kept.times.late = {};
}

void ExpertTrace::ToProto(
    google::protobuf::RepeatedPtrField<v1::Explanation::Part>* parts,
    google::protobuf::RepeatedPtrField<v1::Explanation::SlowLayer>* layers)
    const {
  AddPart("experts: queue", sum_.queue, parts);
  AddPart("experts: disk", sum_.read, parts);
  AddPart("experts: CPU", sum_.compute, parts);
  AddPart("link", sum_.link, parts);
  AddPart("re-plan", sum_.replan, parts);
  AddPart("hedge", sum_.hedge, parts);
  for (size_t i = 0; i < num_layers_; ++i) ToProto(layers_[i], layers->Add());
}

void ExpertTrace::ToProto(const KeptLayer& kept,
                          v1::Explanation::SlowLayer* slow) {
  slow->set_layer(kept.times.layer);
  slow->set_node(kept.node);
  slow->set_seconds(kept.times.waited);
  slow->set_queue_seconds(kept.times.queue);
  slow->set_read_seconds(kept.times.read);
  slow->set_compute_seconds(kept.times.compute);
  slow->set_link_seconds(kept.times.link);
  if (!kept.given_up.empty()) {
    slow->set_remark("re-planned: work of " + kept.given_up +
                     " was given to others");
  } else if (!kept.late.empty()) {
    slow->set_remark("hedged: others were asked for late work of " + kept.late);
  }
}

}  // namespace deltafin
