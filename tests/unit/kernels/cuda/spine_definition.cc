#include "tests/unit/kernels/cuda/spine_definition.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace deltafin::testing {
namespace {

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

Row Multiply(const HostMatrix& w, const Row& x) {
  Row y(w.rows);
  for (int r = 0; r < w.rows; ++r) {
    for (int c = 0; c < w.cols; ++c) y[r] += w.At(r, c) * x[c];
  }
  return y;
}

double Squares(const Row& x) {
  return std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
}

Row RmsNorm(const Row& x, const std::vector<float>& weight, double eps) {
  const double inverse = 1 / std::sqrt(Squares(x) / x.size() + eps);
  Row y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * inverse * weight[i];
  return y;
}

Row Softmax(Row scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& s : scores) total += s = std::exp(s - largest);
  for (double& s : scores) s /= total;
  return scores;
}

Row Slice(const Row& x, size_t begin, size_t count) {
  return Row(x.begin() + begin, x.begin() + begin + count);
}

void Add(Row& to, const Row& x) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += x[i];
}

// The convolved projection; the history moves on.
Row Convolve(const Row& raw, const std::vector<float>& taps, Rows& history) {
  Row y(raw.size());
  for (size_t c = 0; c < raw.size(); ++c) {
    double sum = taps[4 * c + 3] * raw[c];
    for (int j = 0; j < 3; ++j) sum += taps[4 * c + j] * history[j][c];
    y[c] = sum * Sigmoid(sum);
  }
  history.erase(history.begin());
  history.push_back(raw);
  return y;
}

void L2Normalize(Row& x, double eps, double factor) {
  const double scale = factor / std::sqrt(Squares(x) + eps);
  for (double& v : x) v *= scale;
}

// One step of one head; decay per key.
Row StepHead(const Row& q, const Row& k, const Row& v, const Row& decay,
             double beta, Row& state) {
  const size_t dim = q.size();
  Row out(dim);
  for (size_t d = 0; d < dim; ++d) {
    double predicted = 0;
    for (size_t i = 0; i < dim; ++i) {
      state[i * dim + d] *= decay[i];
      predicted += k[i] * state[i * dim + d];
    }
    for (size_t i = 0; i < dim; ++i) {
      state[i * dim + d] += k[i] * beta * (v[d] - predicted);
      out[d] += q[i] * state[i * dim + d];
    }
  }
  return out;
}

}  // namespace

double HostMatrix::At(int r, int c) const {
  const size_t i = size_t{1} * r * cols + c;
  if (!codes.empty()) return double{row_scale[r]} * codes[i];
  return std::bit_cast<float>(uint32_t{bf16[i]} << 16);
}

void SpineDefinition::Begin(const Rows& embedding) {
  prefix = embedding;
  snapshots.clear();
}

Rows SpineDefinition::Input(const std::vector<float>& mix,
                            const std::vector<float>& norm) {
  Rows inputs;
  for (size_t t = 0; t < prefix.size(); ++t) {
    Rows candidates;
    for (const Rows& snapshot : snapshots) candidates.push_back(snapshot[t]);
    candidates.push_back(prefix[t]);
    Row scores;
    for (const Row& v : candidates) {
      double score = 0;
      for (size_t d = 0; d < v.size(); ++d) score += v[d] * mix[d];
      scores.push_back(score /
                       std::sqrt(Squares(v) / v.size() + shape_.rms_norm_eps));
    }
    scores = Softmax(scores);
    Row mixed(prefix[t].size());
    for (size_t j = 0; j < candidates.size(); ++j) {
      for (size_t d = 0; d < mixed.size(); ++d) {
        mixed[d] += scores[j] * candidates[j][d];
      }
    }
    inputs.push_back(RmsNorm(mixed, norm, shape_.rms_norm_eps));
  }
  return inputs;
}

void SpineDefinition::Attend(const HostLayer& layer, bool starts_block,
                             HostState& state) {
  const Rows inputs = Input(layer.attention_mix, layer.input_norm);
  if (starts_block) snapshots.push_back(prefix);
  for (size_t t = 0; t < inputs.size(); ++t) {
    const Row out = layer.is_mla ? Mla(layer, inputs[t], state)
                                 : Kda(layer, inputs[t], state);
    if (starts_block) {
      prefix[t] = out;
    } else {
      Add(prefix[t], out);
    }
  }
}

Row SpineDefinition::Kda(const HostLayer& w, const Row& x, HostState& state) {
  const int heads = shape_.kda_num_heads, dim = shape_.kda_head_dim;
  const Row q = Convolve(Multiply(w.q, x), w.taps[0], state.history[0]);
  const Row k = Convolve(Multiply(w.k, x), w.taps[1], state.history[1]);
  const Row v = Convolve(Multiply(w.v, x), w.taps[2], state.history[2]);
  const Row r = Multiply(w.f_b, Multiply(w.f_a, x));
  const Row b = Multiply(w.b, x), g = Multiply(w.g, x);
  Row out;
  for (int h = 0; h < heads; ++h) {
    Row qh = Slice(q, h * dim, dim), kh = Slice(k, h * dim, dim);
    L2Normalize(qh, shape_.l2_norm_eps, 1 / std::sqrt(double(dim)));
    L2Normalize(kh, shape_.l2_norm_eps, 1);
    Row decay(dim);
    for (int d = 0; d < dim; ++d) {
      decay[d] = std::exp(
          shape_.gate_lower_bound *
          Sigmoid(w.decay_rate[h] * (r[h * dim + d] + w.dt_bias[h * dim + d])));
    }
    Row o = StepHead(qh, kh, Slice(v, h * dim, dim), decay, Sigmoid(b[h]),
                     state.matrices[h]);
    o = RmsNorm(o, w.o_norm, shape_.rms_norm_eps);
    for (int d = 0; d < dim; ++d) {
      out.push_back(o[d] * Sigmoid(g[h * dim + d]));
    }
  }
  return Multiply(w.o, out);
}

Row SpineDefinition::Mla(const HostLayer& w, const Row& x, HostState& state) {
  const int nope = shape_.qk_nope_head_dim, rope = shape_.qk_rope_head_dim;
  const int latent = shape_.kv_lora_rank, v_dim = shape_.v_head_dim;
  const Row q = Multiply(
      w.q_b, RmsNorm(Multiply(w.q_a, x), w.q_a_norm, shape_.low_rank_norm_eps));
  const Row kv = Multiply(w.kv_a, x);
  Row cached =
      RmsNorm(Slice(kv, 0, latent), w.kv_a_norm, shape_.low_rank_norm_eps);
  cached.insert(cached.end(), kv.begin() + latent, kv.end());
  state.latents.push_back(cached);
  const Row g = Multiply(w.g, x);
  Row out;
  for (int h = 0; h < shape_.num_attention_heads; ++h) {
    const double* query = &q[h * (nope + rope)];
    Row absorbed(latent);
    for (int i = 0; i < nope; ++i) {
      for (int c = 0; c < latent; ++c) {
        absorbed[c] += query[i] * w.keys.At(h * nope + i, c);
      }
    }
    absorbed.insert(absorbed.end(), query + nope, query + nope + rope);
    Row scores;
    for (const Row& key : state.latents) {
      scores.push_back(
          std::inner_product(key.begin(), key.end(), absorbed.begin(), 0.0) /
          std::sqrt(double(nope + rope)));
    }
    scores = Softmax(scores);
    Row mixed(latent);
    for (size_t p = 0; p < scores.size(); ++p) {
      for (int c = 0; c < latent; ++c) {
        mixed[c] += scores[p] * state.latents[p][c];
      }
    }
    for (int d = 0; d < v_dim; ++d) {
      double sum = 0;
      for (int c = 0; c < latent; ++c) {
        sum += w.values.At(h * v_dim + d, c) * mixed[c];
      }
      out.push_back(sum * Sigmoid(g[h * v_dim + d]));
    }
  }
  return Multiply(w.o, out);
}

Row SpineDefinition::Mlp(const HostLayer& w, const Row& x) const {
  const Row gate = Multiply(w.gate, x), up = Multiply(w.up, x);
  const double beta = shape_.situ_beta, linear = shape_.situ_linear_beta;
  Row h(gate.size());
  for (size_t i = 0; i < h.size(); ++i) {
    h[i] = beta * std::tanh(gate[i] / beta) * Sigmoid(gate[i]) * linear *
           std::tanh(up[i] / linear);
  }
  return Multiply(w.down, h);
}

void SpineDefinition::DenseMlp(const HostLayer& layer) {
  const Rows inputs = Input(layer.mlp_mix, layer.post_attention_norm);
  for (size_t t = 0; t < inputs.size(); ++t) {
    Add(prefix[t], Mlp(layer, inputs[t]));
  }
}

void SpineDefinition::Route(const HostLayer& layer) {
  mlp_input_ = Input(layer.mlp_mix, layer.post_attention_norm);
  experts.clear();
  weights.clear();
  latents.clear();
  for (const Row& x : mlp_input_) {
    Row scores = Multiply(layer.router, x);
    for (double& s : scores) s = Sigmoid(s);
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return scores[a] + layer.bias[a] > scores[b] + layer.bias[b];
    });
    order.resize(shape_.top_k);
    std::sort(order.begin(), order.end());
    double total = 0;
    for (const int e : order) total += scores[e];
    Row chosen;
    for (const int e : order) {
      chosen.push_back(scores[e] / total * shape_.routed_scaling_factor);
    }
    experts.push_back(order);
    weights.push_back(chosen);
    latents.push_back(Multiply(layer.latent_down, x));
  }
}

void SpineDefinition::AddRouted(const HostLayer& layer, const Rows& sums) {
  for (size_t t = 0; t < prefix.size(); ++t) {
    Add(prefix[t], Mlp(layer, mlp_input_[t]));
    Add(prefix[t], Multiply(layer.latent_up, RmsNorm(sums[t], layer.latent_norm,
                                                     shape_.rms_norm_eps)));
  }
}

}  // namespace deltafin::testing
