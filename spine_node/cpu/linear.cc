#include "spine_node/cpu/linear.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

bool AllFinite(const float* x, int n) {
  return std::all_of(x, x + n, [](float v) { return std::isfinite(v); });
}

OperatorStatus BadInput(const Product& product, const Activations& x) {
  int row = 0;
  while (row + 1 < x.num_tokens &&
         AllFinite(x.x + row * x.ldx, product.weights.cols)) {
    ++row;
  }
  return {KernelStatus::kNotFinite, product.name, row};
}

// The first product in error, at its lowest row.
OperatorStatus FirstOverflow(std::initializer_list<Product> products,
                             int num_tokens) {
  for (const Product& product : products) {
    for (int t = 0; t < num_tokens; ++t) {
      const float* row = product.y + t * product.ldy;
      if (!AllFinite(row, product.weights.rows)) {
        return {KernelStatus::kOverflow, product.name, t};
      }
    }
  }
  return {KernelStatus::kOverflow, products.begin()->name, 0};
}

struct BlockTask {
  const Product* product;
  int first_row;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Linear>> Linear::Create(
    const LinearKernel& kernel, ThreadPool& threads, const Limits& limits) {
  auto linear = std::unique_ptr<Linear>(new Linear(kernel, threads));
  for (WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8}) {
    ASSIGN_OR_RETURN(linear->prepared_[static_cast<int>(format)],
                     AlignedBuffer::Allocate(kernel.prepared_bytes(
                         format, limits.max_cols, limits.max_tokens)));
  }
  for (int i = 0; i < threads.num_threads(); ++i) {
    ASSIGN_OR_RETURN(
        AlignedBuffer buffer,
        AlignedBuffer::Allocate(kernel.prepared_bytes(
            WeightFormat::kBf16, limits.max_head_cols, limits.max_tokens)));
    linear->worker_prepared_.push_back(std::move(buffer));
  }
  return linear;
}

OperatorStatus Linear::Prepare(const Activations& x, const Product& product) {
  const WeightFormat format = product.weights.format;
  AlignedBuffer& out = prepared_[static_cast<int>(format)];
  DCHECK(kernel_.prepared_bytes(format, product.weights.cols, x.num_tokens) <=
         out.size());
  if (kernel_.prepare(format, x.x, x.ldx, x.num_tokens, product.weights.cols,
                      out.data()) == KernelStatus::kOk) {
    return {};
  }
  return BadInput(product, x);
}

OperatorStatus Linear::Run(const Activations& x,
                           std::initializer_list<Product> products) {
  std::vector<BlockTask> tasks;
  std::array<bool, 3> prepared = {};
  for (const Product& product : products) {
    bool& done = prepared[static_cast<int>(product.weights.format)];
    if (!done) RETURN_IF_OPERATOR_FAILED(Prepare(x, product));
    done = true;
    for (int row = 0; row < product.weights.rows; row += kRowBlock) {
      tasks.push_back({&product, row});
    }
  }
  std::atomic<bool> failed = false;
  threads_.ParallelFor(tasks.size(), [&](int64_t task, int) {
    const auto& [product, row] = tasks[task];
    const LinearWeights& w = product->weights;
    const KernelStatus status = kernel_.multiply(
        w, prepared_[static_cast<int>(w.format)].data(), x.num_tokens, row,
        std::min(row + kRowBlock, w.rows), product->y, product->ldy);
    if (status != KernelStatus::kOk) failed = true;
  });
  if (!failed) return {};
  return FirstOverflow(products, x.num_tokens);
}

OperatorStatus Linear::RunOnWorker(int worker, const Activations& x,
                                   const Product& product) {
  const LinearWeights& w = product.weights;
  AlignedBuffer& prepared = worker_prepared_[worker];
  DCHECK(kernel_.prepared_bytes(w.format, w.cols, x.num_tokens) <=
         prepared.size());
  if (kernel_.prepare(w.format, x.x, x.ldx, x.num_tokens, w.cols,
                      prepared.data()) != KernelStatus::kOk) {
    return BadInput(product, x);
  }
  if (kernel_.multiply(w, prepared.data(), x.num_tokens, 0, w.rows, product.y,
                       product.ldy) != KernelStatus::kOk) {
    return FirstOverflow({product}, x.num_tokens);
  }
  return {};
}

}  // namespace deltafin
