#include "isthmus/tensor/weight_map.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::tensor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ExpectError;
using ::testing::Field;

template <typename... Parts>
void ExpectRefused(std::string_view json, const Parts&... parts) {
  SCOPED_TRACE(json);
  ExpectError(
      ErrorCode::kCorrupt, [&] { ParseWeightMap(json); }, parts...);
}

TEST(WeightMapTest, GivesEntriesByTensorNameAndIgnoresOtherKeys) {
  EXPECT_THAT(ParseWeightMap(R"({"metadata":{"total_size":12},)"
                             R"("weight_map":{"b":"m-2.safetensors","a.b":"m-1.safetensors"},)"
                             R"("extra":[1]})"
                             "\n"),
              ElementsAre(AllOf(Field(&WeightMapEntry::tensor, "a.b"),
                                Field(&WeightMapEntry::shard, "m-1.safetensors")),
                          AllOf(Field(&WeightMapEntry::tensor, "b"),
                                Field(&WeightMapEntry::shard, "m-2.safetensors"))));
}

TEST(WeightMapTest, MayBeEmpty) { EXPECT_TRUE(ParseWeightMap(R"({"weight_map":{}})").empty()); }

TEST(WeightMapTest, RefusesWhatIsNoJsonObject) {
  for (std::string_view json : {"", "{", "[]", "1", "{}x", "{\"weight_map\":{\"a\"}}", "\xFF"}) {
    ExpectRefused(json, "not a JSON object");
  }
}

TEST(WeightMapTest, RefusesNoneOrTwoMaps) {
  ExpectRefused("{}", "0 times");
  ExpectRefused(R"({"weight_map":{},"weight_map":{}})", "2 times");
}

TEST(WeightMapTest, RefusesAMapThatIsNoObject) {
  for (std::string_view map : {"[]", "1", "null", "\"x\""}) {
    ExpectRefused(fmt::format(R"({{"weight_map":{}}})", map), "expected an object");
  }
}

TEST(WeightMapTest, RefusesATensorThatOccursTwice) {
  ExpectRefused(R"({"weight_map":{"a":"m.safetensors","b":"m.safetensors","a":"m.safetensors"}})",
                "\"a\"", "twice");
}

TEST(WeightMapTest, RefusesNamesThatNoTensorHas) {
  ExpectRefused(R"({"weight_map":{"":"m.safetensors"}})", "not a tensor name");
  ExpectRefused(R"({"weight_map":{"a\n":"m.safetensors"}})", "not a tensor name");
}

TEST(WeightMapTest, RefusesAShardThatIsNoString) {
  ExpectRefused(R"({"weight_map":{"a":1}})", "\"a\"", "expected a file name");
}

TEST(WeightMapTest, RefusesShardsOutsideOfTheDirectory) {
  for (std::string_view shard :
       {"../m.safetensors", "/m.safetensors", "sub/m.safetensors", "./m.safetensors", "..", "",
        ".m.safetensors", "m.bin", "m.safetensors/", "a\\u0000.safetensors"}) {
    ExpectRefused(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", shard), "\"a\"",
                  "expected the name of a *.safetensors file");
  }
}

}  // namespace
}  // namespace isthmus::tensor
