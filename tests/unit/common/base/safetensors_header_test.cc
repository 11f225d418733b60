#include <string>

#include "common/base/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deltafin {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBegin = 1000;

auto Parse(const std::string& json, uint64_t data_bytes) {
  return SafetensorsFile::ParseHeader(json, kBegin, kBegin + data_bytes);
}

std::string MessageOf(const std::string& json, uint64_t data_bytes) {
  const auto tensors = Parse(json, data_bytes);
  if (tensors.ok()) return "accepted";
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensors.status().message());
}

// One tensor "t" with these raw JSON values.
std::string OneTensor(const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
  return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}}";
}

TEST(SafetensorsHeaderTest, ReadsTensorsWithAbsoluteOffsets) {
  const auto tensors = Parse(
      R"({"__metadata__":{"format":"pt"},
          "a":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},
          "b":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}   )",
      32);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 2u);
  const TensorInfo& a = tensors->at("a");
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(a.offset, kBegin + 8);
  EXPECT_EQ(a.bytes, 24u);
  EXPECT_EQ(tensors->at("b").offset, kBegin);
}

TEST(SafetensorsHeaderTest, ReadsScalarsAndEmptyTensors) {
  EXPECT_EQ(MessageOf(OneTensor("\"I64\"", "[]", "[0,8]"), 8), "accepted");
  EXPECT_EQ(MessageOf(OneTensor("\"U8\"", "[0,5]", "[0,0]"), 0), "accepted");
  EXPECT_EQ(MessageOf("{}", 0), "accepted");
}

TEST(SafetensorsHeaderTest, NamesSizesOfDTypes) {
  EXPECT_EQ(DTypeSize(DType::kBf16), 2u);
  EXPECT_EQ(DTypeSize(DType::kF64), 8u);
  EXPECT_EQ(DTypeName(DType::kU16), "U16");
}

TEST(SafetensorsHeaderTest, RefusesABadEntryNamingTheTensor) {
  const struct {
    std::string json;
    const char* reason;
  } cases[] = {
      {OneTensor("\"F8\"", "[1]", "[0,1]"), "dtype 'F8' is not supported"},
      {OneTensor("7", "[1]", "[0,1]"), "dtype is no string"},
      {OneTensor("\"U8\"", "7", "[0,1]"), "shape is no list"},
      {OneTensor("\"U8\"", "[-1]", "[0,1]"), "shape holds -1"},
      {OneTensor("\"U8\"", "[1.0]", "[0,1]"), "shape holds 1.0"},
      {OneTensor("\"U8\"", "[1e0]", "[0,1]"), "shape holds"},
      {OneTensor("\"U8\"", "[9223372036854775807]", "[0,1]"), "shape holds"},
      {OneTensor("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]"),
       "more than 8 dimensions"},
      {OneTensor("\"U8\"", "[1]", "[0]"), "data_offsets is [0]"},
      {OneTensor("\"U8\"", "[1]", "[0,1,1]"), "data_offsets is [0,1,1]"},
      {OneTensor("\"U8\"", "[1]", "[-1,0]"), "data_offsets is [-1,0]"},
      {OneTensor("\"U8\"", "[1]", "[0.0,1]"), "data_offsets is [0.0,1]"},
      {OneTensor("\"U8\"", "[1]", "[1,0]"), "do not lie in the 1 data bytes"},
      {OneTensor("\"U8\"", "[2]", "[0,2]"), "do not lie in the 1 data bytes"},
      {OneTensor("\"U8\"", "[1]", "[0,18446744073709551615]"), "do not lie"},
      {OneTensor("\"F32\"", "[1]", "[0,1]"),
       "shape and dtype ask for 4 bytes, data_offsets hold 1"},
      {OneTensor("\"U8\"", "[4294967296,4294967296]", "[0,0]"), "overflows"},
      {OneTensor("\"I64\"", "[2305843009213693952]", "[0,0]"), "overflows"},
      {R"({"t":{"dtype":"U8","shape":[1]}})", "each once"},
      {R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       "each once"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0}})",
       "unknown key 'x'"},
      {R"({"t":[]})", "entry is no object"},
  };
  for (const auto& [json, reason] : cases) {
    EXPECT_THAT(MessageOf(json, 1), HasSubstr(reason)) << json;
    EXPECT_THAT(MessageOf(json, 1), HasSubstr("tensor t: ")) << json;
  }
}

std::string TwoTensors(const std::string& a, const std::string& b) {
  return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
         R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
}

TEST(SafetensorsHeaderTest, RefusesOverlapsGapsAndTrailingBytes) {
  EXPECT_EQ(MessageOf(TwoTensors("[4,8]", "[0,4]"), 8), "accepted");
  EXPECT_THAT(MessageOf(TwoTensors("[0,4]", "[3,7]"), 7),
              HasSubstr("tensor b: data begins at 3, overlapping"));
  EXPECT_THAT(MessageOf(TwoTensors("[0,4]", "[0,4]"), 4),
              HasSubstr("tensor b: data begins at 0, overlapping"));
  EXPECT_THAT(MessageOf(TwoTensors("[0,4]", "[5,9]"), 9),
              HasSubstr("tensor b: data begins at 5, after a gap"));
  EXPECT_THAT(MessageOf(TwoTensors("[1,5]", "[5,9]"), 9),
              HasSubstr("tensor a: data begins at 1, after a gap"));
  EXPECT_THAT(MessageOf(TwoTensors("[0,4]", "[4,8]"), 10),
              HasSubstr("2 bytes follow the last tensor"));
  EXPECT_THAT(MessageOf("{}", 1), HasSubstr("1 bytes follow"));
}

TEST(SafetensorsHeaderTest, RefusesDuplicates) {
  const std::string entry =
      R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(MessageOf("{" + entry + "," + entry + "}", 0),
              HasSubstr("tensor a appears twice"));
  EXPECT_THAT(MessageOf(R"({"__metadata__":{},"__metadata__":{}})", 0),
              HasSubstr("__metadata__ appears twice"));
}

TEST(SafetensorsHeaderTest, RefusesMetadataThatIsNoMapOfStrings) {
  EXPECT_THAT(MessageOf(R"({"__metadata__":[]})", 0), HasSubstr("no object"));
  EXPECT_THAT(MessageOf(R"({"__metadata__":{"k":1}})", 0),
              HasSubstr("'k' is no string"));
}

TEST(SafetensorsHeaderTest, RefusesWhatIsNoJsonObject) {
  for (const std::string& json :
       {std::string(), std::string("["), std::string("[]"), std::string("{"),
        std::string("{}x"), std::string("{\"\xc3\x28\":{}}"),
        std::string(1'000'000, '['), std::string("{\"a\":") + "[[[[[[[[[[",
        std::string("{}\0{}", 5)}) {
    EXPECT_THAT(MessageOf(json, 0), HasSubstr("no valid JSON object"))
        << json.substr(0, 20);
  }
}

TEST(SafetensorsHeaderTest, RefusesAHeaderBeyondTheFile) {
  const auto tensors = SafetensorsFile::ParseHeader("{}", 10, 9);
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace deltafin
