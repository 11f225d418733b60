#!/usr/bin/env python3
"""Plants violations and checks that include_edges.py names each of them."""
import os
import subprocess
import sys
import tempfile
import unittest

import include_edges

FORBIDDEN = (
    ("kernels/mxfp4.h", '"common/base/check.h"', "kernels may not include common/base"),
    ("kernels/mxfp4.h", '"absl/status/status.h"', "abseil may be included only"),
    ("kernels/mxfp4.h", "<spdlog/spdlog.h>", "spdlog may be included only"),
    ("kernels/mxfp4.h", "<immintrin.h>", "intrinsics may be included only"),
    ("kernels/mxfp4.h", "<Eigen/Core>", "nor a known library"),
    ("kernels/avx2/expert.cc", '"simd.h"', "nor a known library"),
    ("kernels/avx2/expert.cc", '"expert_tail.cc"', "source files are not included"),
    ("common/base/clock.cc", '"proto/expert.pb.h"', "common/base may not include proto"),
    ("common/base/clock.cc", '"common/net/metrics.h"', "common/base may not include common/net"),
    ("common/base/clock.cc", "<grpcpp/grpcpp.h>", "gRPC may be included only"),
    ("common/base/model_spec.h", "<nlohmann/json.hpp>", "nlohmann JSON may be included only"),
    ("common/base/model_spec.h", '"simdjson.h"', "simdjson may be included only"),
    ("common/base/manifest.cc", "<openssl/evp.h>", "OpenSSL may be included only"),
    ("common/base/manifest.cc", '"xxhash.h"', "xxHash may be included only"),
    ("common/net/metrics.cc", '"expert_node/options.h"', "common/net may not include expert_node"),
    ("spine_node/spine.h", '"proto/expert.pb.h"', "spine_node may not include proto"),
    ("spine_node/spine.h", '"common/net/metrics.h"', "spine_node may not include common/net"),
    ("spine_node/spine.h", "<ATen/ATen.h>", "libtorch may be included only"),
    ("spine_node/cpu/router.cc", "<torch/torch.h>", "libtorch may be included only"),
    ("spine_node/cpu/router.cc", "<google/protobuf/message.h>", "protobuf may be included only"),
    ("expert_node/expert_engine.h", '"spine_node/spine.h"', "expert_node may not include spine_node"),
    ("expert_node/expert_engine.h", '"coordinator/options.h"', "expert_node may not include coordinator"),
    ("expert_node/expert_engine.h", "<grpcpp/server.h>", "gRPC may be included only"),
    ("expert_node/expert_engine.h", '"proto/expert.grpc.pb.h"', "gRPC may be included only"),
    ("expert_node/storage/tiered_store.cc", "<rocksdb/db.h>", "RocksDB may be included only"),
    ("expert_node/storage/tiered_store.cc", "<curl/curl.h>", "libcurl may be included only"),
    ("coordinator/engine/scheduler.h", '"expert_node/expert_node.h"', "may not include expert_node"),
    ("coordinator/engine/scheduler.h", '"coordinator/frontend/tokenizer.h"', "may not include coordinator/frontend"),
    ("coordinator/engine/scheduler.h", '"coordinator/options.h"', "may not include coordinator"),
    ("coordinator/cluster/placement.h", '"coordinator/engine/request.h"', "may not include coordinator/engine"),
    ("coordinator/frontend/tokenizer.h", '"coordinator/cli/program.h"', "may not include coordinator/cli"),
    ("coordinator/frontend/openai_service.cc", "<boost/beast/http.hpp>", "Boost may be included only"),
    ("coordinator/frontend/tokenizer.h", "<pcre2.h>", "PCRE2 may be included only"),
    ("coordinator/engine/scheduler.cc", "<CLI/CLI.hpp>", "CLI11 may be included only"),
    ("coordinator/engine/scheduler.cc", "<grpcpp/grpcpp.h>", "gRPC may be included only"),
    ("coordinator/options.h", '"coordinator/cli/program.h"', "may not include coordinator/cli"),
    ("coordinator/widgets/widget.h", "<vector>", "does not name"),
    ("common/helpers/strings.h", "<vector>", "does not name"),
    ("common/net/metrics.cc", '"common/helpers/strings.h"', "does not name"),
    ("common/net/http_server.h", "<boost/asio/ssl.hpp>", "Boost may be included only"),
    ("common/net/metrics.cc", '"tests/testing/temp_dir.h"', "nor a known library"),
)

ALLOWED = (
    ("kernels/avx2/expert.cc", "<immintrin.h>"),
    ("kernels/machine_aarch64.cc", "<sys/auxv.h>"),
    ("kernels/mxfp4.h", "<cstdint>"),
    ("common/base/thread_pool.cc", '"kernels/kernel_registry.h"'),
    ("common/base/model_config.cc", '"simdjson.h"'),
    ("common/net/server_lifecycle.cc", "<grpcpp/server.h>"),
    ("common/net/http_stream.cc", "<boost/asio/ssl.hpp>"),
    ("spine_node/torch/torch_spine.cc", "<ATen/ATen.h>"),
    ("expert_node/expert_service.h", "<grpcpp/server_context.h>"),
    ("expert_node/storage/local_store.cc", '"common/base/direct_reader.h"'),
    ("coordinator/engine/scheduler.cc", '"spine_node/spine.h"'),
    ("coordinator/frontend/inference_service.h", '"coordinator/engine/scheduler.h"'),
    ("coordinator/expert_nodes.cc", "<grpcpp/grpcpp.h>"),
    ("coordinator/coordinator.cc", '"expert_node/expert_node.h"'),
    ("coordinator/cli/info_command.cc", '"expert_node/options.h"'),
    ("coordinator/main.cc", '"coordinator/cli/program.h"'),
)


class IncludeEdgesTest(unittest.TestCase):
    def test_names_every_forbidden_include(self):
        for path, include, sentence in FORBIDDEN:
            found = include_edges.check_include(path, "#include " + include)
            self.assertTrue(any(sentence in f for f in found), (path, include, found))

    def test_accepts_every_allowed_include(self):
        for path, include in ALLOWED:
            self.assertEqual(include_edges.check_include(path, "#include " + include), [], (path, include))

    def test_sees_indented_includes_and_no_others(self):
        planted = ' #  include "common/base/check.h"'
        self.assertEqual(len(include_edges.check_include("kernels/a.h", planted)), 1)
        self.assertEqual(include_edges.check_include("kernels/a.h", '// #include "common/base/check.h"'), [])

    def test_every_edge_ends_at_a_known_module(self):
        for targets in include_edges.EDGES.values():
            for target in targets:
                self.assertIn(target, include_edges.EDGES)

    def test_refuses_long_files_and_headers_without_a_guard(self):
        long = "\n" * (include_edges.MAX_LINES + 1)
        self.assertEqual(include_edges.check_file("tests/unit/a_test.cc", long)[0][0], 401)
        self.assertEqual(include_edges.check_file("tests/unit/a_test.cc", long[:-1]), [])
        self.assertIn("pragma", include_edges.check_file("kernels/a.h", "int a;\n")[0][1])

    def test_program_fails_on_a_planted_violation(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "include_edges.py")
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "kernels"))
            planted = os.path.join(root, "kernels", "a.cc")
            with open(planted, "w", encoding="utf-8") as source:
                source.write("#include <vector>\n")
            good = subprocess.run([sys.executable, script, root], capture_output=True, text=True)
            self.assertEqual(good.returncode, 0, good.stdout)
            with open(planted, "a", encoding="utf-8") as source:
                source.write('#include "common/base/check.h"\n')
            bad = subprocess.run([sys.executable, script, root], capture_output=True, text=True)
            self.assertEqual(bad.returncode, 1)
            self.assertIn("kernels/a.cc:2: ", bad.stdout)
        with tempfile.TemporaryDirectory() as empty:
            self.assertEqual(subprocess.run([sys.executable, script, empty], capture_output=True).returncode, 1)


if __name__ == "__main__":
    unittest.main()
