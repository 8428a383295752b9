// The concurrent part of the store conformance suite (tests/conformance/store.h).
#ifndef ISTHMUS_TESTS_CONFORMANCE_STORE_RACES_H_
#define ISTHMUS_TESTS_CONFORMANCE_STORE_RACES_H_

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "isthmus/store/store.h"

namespace isthmus::store {

inline constexpr uint64_t kAnyBytes = std::numeric_limits<uint64_t>::max();

// 64 threads, on two clients of one place, create `key` at once. Fails the test unless exactly one
// is told that it did, and each of them, as soon as its call returned, reads that one's content.
inline void ExpectOneCreatorWins(Store& first, Store& second, const std::string& key) {
  constexpr int kCreators = 64;
  std::latch start(kCreators);
  std::atomic<int> wins = 0;
  std::atomic<int> misreads = 0;
  std::vector<std::jthread> creators;
  creators.reserve(kCreators);
  for (int i = 0; i < kCreators; ++i) {
    creators.emplace_back([&, i] {
      Store& store = i % 2 == 0 ? first : second;
      const std::string content(1000, static_cast<char>('0' + i));
      start.arrive_and_wait();
      const bool won = store.Create(key, AsBytes(content));
      if (won) ++wins;
      const std::optional<std::string> stored = store.Get(key, kAnyBytes);
      if (!stored || stored->size() != content.size() || won != (*stored == content)) ++misreads;
    });
  }
  creators.clear();
  EXPECT_EQ(wins, 1);
  EXPECT_EQ(misreads, 0);
}

// Reads `key` while another thread replaces it all the time, by Put and by PutFile of `file`.
// Fails the test if a reader ever sees anything but one of the two contents.
inline void ExpectReplacementIsAtomic(Store& writer, Store& reader, const std::string& key,
                                      const fs::path& file) {
  const std::string from_file = ReadFile(file, kAnyBytes);
  const std::string other(from_file.size() * 3 / 2, 'b');
  writer.Put(key, AsBytes(other));
  const std::jthread replacing([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      writer.PutFile(key, file);
      writer.Put(key, AsBytes(other));
    }
  });
  for (int i = 0; i < 500; ++i) {
    const std::optional<std::string> seen = reader.Get(key, kAnyBytes);
    ASSERT_TRUE(seen == from_file || seen == other);
    const std::string range = reader.GetRange(key, 0, from_file.size());
    ASSERT_TRUE(range == from_file || range == other.substr(0, range.size()));
  }
}

}  // namespace isthmus::store

#endif  // ISTHMUS_TESTS_CONFORMANCE_STORE_RACES_H_
