// A board, a publisher and replicas in one directory, with a model that changes.
#ifndef ISTHMUS_TESTS_INTEGRATION_MAIN_JOB_H_
#define ISTHMUS_TESTS_INTEGRATION_MAIN_JOB_H_

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "isthmus/publish/publisher.h"
#include "tests/support/errors.h"
#include "tests/support/model.h"
#include "tests/support/temp_dir.h"

namespace isthmus::testing {

class MainJob : public ::testing::Test {
 protected:
  MainJob() : seed_(std::random_device()()), random_(seed_), model_(SmallModel(&random_)) {
    RecordProperty("seed", static_cast<int>(seed_));
    board::Board::Init(*store::OpenStore((dir_ / "board").string()));
  }

  board::Board OpenBoard() const {
    return board::Board::Open(store::OpenStore((dir_ / "board").string()));
  }

  // Writes the model as "source-N" and publishes it from a session of its own.
  publish::PublishResult Publish(const publish::PublishOptions& options = {},
                                 const std::string& baseline = "baseline",
                                 const std::string& run = "run") {
    const fs::path source = dir_ / ("source-" + std::to_string(++sources_));
    model_.Write(source);
    board::Board board = OpenBoard();
    publish::Publisher publisher(board, run, dir_ / baseline, pool_, NoProgress());
    return publisher.Publish(source, options);
  }

  // Publishes `count` versions, each a small step behind the one before.
  void PublishSteps(int count) {
    for (int i = 0; i < count; ++i) {
      model_.Step(100, &random_);
      Publish();
    }
  }

  replica::PullResult Pull(const std::string& replica, board::VersionNumber version,
                           const std::string& run = "run") {
    const board::Board board = OpenBoard();
    return replica::Replica(dir_ / replica, pool_, NoProgress()).Pull(board, run, version);
  }

  // The files of a replica are those of source N, byte for byte, and no others.
  void ExpectIsSource(const std::string& replica, int source) {
    const fs::path expected = dir_ / ("source-" + std::to_string(source));
    EXPECT_EQ(FilesOf(dir_ / replica), FilesOf(expected));
  }

  static std::map<std::string, std::string> FilesOf(const fs::path& directory) {
    std::map<std::string, std::string> files;
    for (auto at = fs::recursive_directory_iterator(directory); at != fs::end(at); ++at) {
      if (at->path().filename().string().starts_with('.')) {
        at.disable_recursion_pending();
      } else if (at->is_regular_file()) {
        files[at->path().lexically_relative(directory).string()] = ReadFile(at->path(), 1 << 30);
      }
    }
    return files;
  }

  // Flips a bit in the middle of a file.
  static void Damage(const fs::path& path) {
    std::string content = ReadFile(path, 1 << 30);
    content[content.size() / 2] ^= 0x20;
    File::Create(path).Write(AsBytes(content));
  }

  // The only part of a version's only payload.
  fs::path PartOf(board::VersionNumber version) const {
    return dir_ / "board" / OpenBoard().Read("run", version)->payloads.at(0).parts.at(0).key;
  }

  TempDir dir_;
  unsigned seed_;
  std::mt19937 random_;
  Model model_;
  ThreadPool pool_{2};
  int sources_ = 0;
};

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_INTEGRATION_MAIN_JOB_H_
