#include "isthmus/relay/object_kind.h"

#include <gtest/gtest.h>

namespace isthmus::relay {
namespace {

TEST(ObjectKindTest, WhatIsCreatedOnceIsImmutable) {
  for (std::string_view key :
       {"board.json", "runs/r/run.json", "runs/r/log/0000000001.json", "runs/r/data/1/ab/part-0",
        "runs/r/extra/1/anchor", "runs/r/writers/000001.json", "runs/r/revoked/0000000001.json"}) {
    EXPECT_EQ(KindOf(key), ObjectKind::kImmutable) << key;
  }
}

TEST(ObjectKindTest, HintsClaimsAndUnknownThingsOfARunMayChange) {
  for (std::string_view key : {"runs/r/head.json", "runs/r/pins/a.json", "runs/r/log",
                               "runs/r/logs/1", "runs/r/new/log/1"}) {
    EXPECT_EQ(KindOf(key), ObjectKind::kMutable) << key;
  }
  EXPECT_EQ(KindOf("runs/log/head.json"), ObjectKind::kMutable);
  EXPECT_EQ(KindOf("runs/log/data/x"), ObjectKind::kImmutable);
}

TEST(ObjectKindTest, AllElseInTheStoreIsNoPartOfTheBoard) {
  for (std::string_view key : {"secret", "board.json.bak", "runs", "runs/r", "log/1", "board"}) {
    EXPECT_EQ(KindOf(key), ObjectKind::kForeign) << key;
  }
}

TEST(ObjectKindTest, TheRunIsNamedByKeysAndByLongEnoughPrefixes) {
  EXPECT_EQ(RunPrefixOf("runs/r/head.json"), "runs/r/");
  EXPECT_EQ(RunPrefixOf("runs/r/"), "runs/r/");
  EXPECT_EQ(RunPrefixOf("runs/r"), "");
  EXPECT_EQ(RunPrefixOf("runs/"), "");
  EXPECT_EQ(RunPrefixOf(""), "");
}

TEST(ObjectKindTest, OnlySomePrefixesBeginKeys) {
  for (std::string_view prefix : {"", "r", "runs", "runs/", "runs/r/log/0", "a.b"}) {
    EXPECT_TRUE(MayBeginKeys(prefix)) << prefix;
  }
  for (std::string_view prefix : {"/", "//", "/a", ".", "../", "runs//", "runs/.", "a b", "a\\"}) {
    EXPECT_FALSE(MayBeginKeys(prefix)) << prefix;
  }
  EXPECT_FALSE(MayBeginKeys(std::string(1025, 'a')));
}

}  // namespace
}  // namespace isthmus::relay
