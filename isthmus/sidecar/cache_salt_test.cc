#include "isthmus/sidecar/cache_salt.h"

#include <gtest/gtest.h>

#include <set>

namespace isthmus::sidecar {
namespace {

TEST(CacheSaltTest, IsDigestsAroundTheVersion) {
  // printf run | sha256sum; printf user | sha256sum
  EXPECT_EQ(MakeCacheSalt("run", 42, std::nullopt), "acba25512100f80b.42");
  EXPECT_EQ(MakeCacheSalt("run", 42, "user"),
            "acba25512100f80b.42.04f8996da763b7a969b1028ee3007569");
}

TEST(CacheSaltTest, DiffersWithEachPart) {
  std::set<std::string> salts;
  size_t count = 0;
  const std::string at_end("1\0", 2);
  for (const char* run : {"", "r", "r.1", "1"}) {
    for (const board::VersionNumber version : {0, 1, 11, 111}) {
      for (const auto& user : std::initializer_list<std::optional<std::string>>{
               std::nullopt, "", "1", at_end, "11", "r.1"}) {
        salts.insert(MakeCacheSalt(run, version, user));
        ++count;
      }
    }
  }
  EXPECT_EQ(salts.size(), count);
}

TEST(CacheSaltTest, IsWhatEnginesTake) {
  const std::string salt =
      MakeCacheSalt(std::string(1'000, '@'), ~uint64_t{0}, std::string(100'000, '\\'));
  EXPECT_EQ(salt.size(), 70U);
  EXPECT_LE(salt.size(), kMaxCacheSaltCharacters);
  EXPECT_EQ(salt.find_first_not_of("0123456789abcdef."), std::string::npos);
}

}  // namespace
}  // namespace isthmus::sidecar
