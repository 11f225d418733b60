#include "bench/recorded_routes.h"

#include <algorithm>
#include <span>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/tokenizer.h"
#include "tests/testing/spine_run.h"

namespace deltafin::bench {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;

// Layers come one after the other with all tokens of the window; a reader of
// decoding wants them token by token.
class WindowRecorder {
 public:
  WindowRecorder(RecordedRoutes& routes, int64_t num_tokens)
      : routes_(routes), first_(routes.experts.size()) {
    routes_.experts.resize(first_ +
                           num_tokens * routes_.num_layers * routes_.top_k);
  }

  void Record(int moe_layer, const RoutedTokens& tokens) {
    for (int t = 0; t < tokens.num_tokens; ++t) {
      const auto row = tokens.experts.subspan(t * routes_.top_k, routes_.top_k);
      std::copy(row.begin(), row.end(),
                routes_.experts.begin() + first_ +
                    (t * routes_.num_layers + moe_layer) * routes_.top_k);
    }
  }

 private:
  RecordedRoutes& routes_;
  const size_t first_;
};

}  // namespace

absl::StatusOr<RecordedRoutes> RecordRoutes(const std::string& model_dir,
                                            const std::string& text_file,
                                            int window, int64_t max_tokens) {
  testing::SpineRun run(model_dir);
  const ModelSpec& spec = run.spec();
  ASSIGN_OR_RETURN(const auto tokenizer,
                   Tokenizer::Load(model_dir, spec.vocab_size));
  ASSIGN_OR_RETURN(const std::string text, ReadFile(text_file, kMaxTextBytes));
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->Encode(text));
  RecordedRoutes routes;
  std::vector<int> moe_layer(spec.num_hidden_layers, -1);
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    if (spec.is_moe(layer)) moe_layer[layer] = routes.num_layers++;
  }
  routes.num_experts = spec.num_experts;
  routes.top_k = spec.num_experts_per_token;
  routes.expert_bytes =
      spec.expert_shape().slice_offset(spec.expert_shape().num_slices());
  std::span<const int32_t> rest(ids);
  rest = rest.first(std::min<size_t>(rest.size(), max_tokens));
  while (!rest.empty()) {
    const auto part = rest.first(std::min<size_t>(rest.size(), window));
    rest = rest.subspan(part.size());
    WindowRecorder recorder(routes, part.size());
    run.on_route = [&](int layer, const RoutedTokens& tokens) {
      recorder.Record(moe_layer[layer], tokens);
    };
    const auto state = run.NewSequence(part.size());
    RETURN_IF_ERROR(run.Feed(*state, part, LogitsRows::kNone).status());
  }
  return routes;
}

}  // namespace deltafin::bench
