// coordinator/engine/expert_trace.h
//
// Where the time went that steps waited for routed experts, and the layers that
// were waited for longest. Bounded, and without allocation once its strings
// have grown. Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/admin.pb.h"

namespace deltafin {

// One layer, in seconds.
struct LayerTrace {
  int layer = 0;
  double waited = 0;  // by the engine, after its own work
  // Of the answer that came last: the node, what it reported, and what its part
  // took besides.
  std::string_view node;
  double queue = 0;
  double read = 0;
  double compute = 0;
  double link = 0;
  // Part of `waited` that passed before the last time that work was given from
  // one node to others, and who had it first. Empty: it never was.
  double replan = 0;
  std::string_view given_up;
  // The same of the last time that late work was asked of another node as well.
  double hedge = 0;
  std::string_view late;
};

class ExpertTrace {
 public:
  static constexpr size_t kMaxLayers = 5;
  static constexpr size_t kMaxNameSize = 128;

  ExpertTrace();

  void Clear();
  // What was waited for, but for replanning and hedging, is divided over queue,
  // read, compute and link as the last answer divides it.
  void Add(const LayerTrace& layer);
  void Add(const ExpertTrace& other);

  double waited() const { return sum_.waited; }
  // By what they were waited for, descending.
  size_t num_layers() const { return num_layers_; }

  // Appends Part and SlowLayer messages.
  void ToProto(google::protobuf::RepeatedPtrField<v1::Explanation::Part>* parts,
               google::protobuf::RepeatedPtrField<v1::Explanation::SlowLayer>*
                   layers) const;

 private:
  struct KeptLayer {
    LayerTrace times;  // its names are those below
    std::string node;
    std::string given_up;
    std::string late;
  };
  void Keep(const LayerTrace& layer);
  static void ToProto(const KeptLayer& kept, v1::Explanation::SlowLayer* slow);

  LayerTrace sum_;
  std::vector<KeptLayer> layers_;  // always kMaxLayers
  size_t num_layers_ = 0;
};

}  // namespace deltafin
