#!/usr/bin/env python3
"""Plants messages without a target and checks that fuzz_coverage.py names each of them."""
import unittest

import fuzz_coverage

PROTO = """
// message Gone { int32 x = 1; }
service S { rpc Ask(Question) returns (stream Answer) {} }
message Question {
  oneof what {
    Part part = 1;
  }
  enum Kind { A = 0; }
}
message Part { repeated uint32 ids = 1; }  // { not a block
message Answer {
  message Row { Cell cell = 1; }
  repeated Row rows = 1;
}
message Cell { string text = 1; }
message Empty {}
"""
TABLE = """
| target | messages |
| --- | --- |
| `ask_fuzz` | `Question` |
| `say_fuzz` | `Answer` |
"""
SOURCES = {"ask_fuzz": "v1::Question question;", "say_fuzz": "v1::Answer answer;"}


class FuzzCoverageTest(unittest.TestCase):
    def check(self, proto=PROTO, table=TABLE, sources=None):
        return fuzz_coverage.check(fuzz_coverage.messages_of(proto), fuzz_coverage.table_of(table),
                                   SOURCES if sources is None else sources)

    def test_parts_count_with_what_holds_them(self):
        self.assertEqual(sorted(fuzz_coverage.messages_of(PROTO)), ["Answer", "Cell", "Empty", "Part", "Question"])
        self.assertEqual(self.check(), [])

    def test_names_a_new_message(self):
        found = self.check(PROTO + "message New { int32 x = 1; }")
        self.assertEqual(len(found), 1)
        self.assertIn("New: no fuzz target", found[0])

    def test_names_an_empty_message_that_gets_a_field(self):
        found = self.check(PROTO.replace("message Empty {}", "message Empty { bool x = 1; }"))
        self.assertIn("Empty: no fuzz target", "".join(found))

    def test_names_a_message_whose_row_went(self):
        found = self.check(table=TABLE.replace("| `say_fuzz` | `Answer` |", ""))
        self.assertEqual([sentence.split(":")[0] for sentence in found], ["Answer", "Cell"])

    def test_names_targets_and_messages_that_are_not(self):
        self.assertIn("not built", "".join(self.check(sources={})))
        self.assertIn("no message", "".join(self.check(table=TABLE + "| `ask_fuzz` | `Old` |\n")))
        self.assertIn("ask_fuzz: the source does not name Question",
                      self.check(sources={"ask_fuzz": "Questions", "say_fuzz": "Answer"}))


if __name__ == "__main__":
    unittest.main()
