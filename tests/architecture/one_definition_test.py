#!/usr/bin/env python3
"""Plants two types of one name and checks that one_definition.py names them, and nothing else."""
import os
import tempfile
import unittest

import one_definition

HEADER = """
namespace deltafin {

class Later;
struct Request {
  struct Part {};
};
enum class Kind : int { kOne };
class Store final : public Base {
};

}  // namespace deltafin
"""
OTHER = """
namespace deltafin {
namespace {

struct Store {};

}  // namespace

class Request {
 public:
  struct Part {};
};

namespace other {

enum class Kind { kTwo };

}  // namespace other
}  // namespace deltafin
"""


class OneDefinitionTest(unittest.TestCase):
    def violations(self, files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
            return list(one_definition.violations(root))

    def test_reads_types_of_named_namespaces(self):
        self.assertEqual(one_definition.types_of(HEADER),
                         [("deltafin", "Request"), ("deltafin", "Kind"), ("deltafin", "Store")])
        self.assertEqual(one_definition.types_of(OTHER), [("deltafin", "Request"), ("deltafin::other", "Kind")])

    def test_names_both_files(self):
        self.assertEqual(self.violations({"common/a.h": HEADER, "expert_node/b.cc": OTHER}),
                         ["deltafin::Request is defined in common/a.h and expert_node/b.cc: give one of them another name"])

    def test_programs_and_modules_stand_alone(self):
        self.assertEqual(self.violations({"common/a.h": HEADER, "bench/b.cc": OTHER, "coordinator/main.cc": OTHER,
                                          "spine_node/torch/c.h": OTHER}), [])


if __name__ == "__main__":
    unittest.main()
