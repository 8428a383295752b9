#include "isthmus/gateway/assets.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "isthmus/base/digest.h"
#include "isthmus/base/file.h"

namespace isthmus::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string TagOf(std::string_view bytes) {
  return fmt::format("\"{}\"", Sha256(std::as_bytes(std::span(bytes))).Hex().substr(0, 32));
}

TEST(AssetsTest, ThePageIsTheFileInTheRepository) {
  const auto page = FindAsset("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->bytes, ReadFile(ISTHMUS_SOURCE_DIR "/web/index.html", 1 << 20));
  EXPECT_EQ(page->content_type, "text/html; charset=utf-8");
}

TEST(AssetsTest, WhatThePageNamesIsThere) {
  for (const auto* path : {"/dashboard/style.css", "/dashboard/main.js", "/dashboard/d3.min.js"}) {
    EXPECT_TRUE(FindAsset(path)) << path;
    EXPECT_THAT(std::string(FindAsset("/")->bytes), HasSubstr(path));
  }
}

TEST(AssetsTest, AllElseIsNotFound) {
  for (const auto* path : {"", "/index.html", "/dashboard", "/dashboard/", "/dashboard/index.html",
                           "/dashboard/../main.js", "dashboard/main.js", "//"}) {
    EXPECT_FALSE(FindAsset(path)) << path;
  }
}

TEST(AssetsTest, EachHasATypeAndTagsOfItsBytes) {
  std::set<std::string_view> paths;
  for (const Asset& asset : AllAssets()) {
    EXPECT_TRUE(paths.insert(asset.path).second) << asset.path;
    EXPECT_FALSE(asset.content_type.empty()) << asset.path;
    EXPECT_EQ(asset.etag, TagOf(asset.bytes)) << asset.path;
    if (asset.gzip.empty()) continue;
    EXPECT_THAT(std::string(asset.gzip), StartsWith("\x1F\x8B")) << asset.path;
    EXPECT_LT(asset.gzip.size(), asset.bytes.size()) << asset.path;
    EXPECT_EQ(asset.gzip_etag, TagOf(asset.gzip)) << asset.path;
  }
}

}  // namespace
}  // namespace isthmus::gateway
