#include "isthmus/sidecar/switch_journal.h"

#include <gtest/gtest.h>

#include "isthmus/replica/state.h"
#include "tests/support/temp_dir.h"

namespace isthmus::sidecar {
namespace {

using isthmus::testing::TempDir;

SwitchRecord Example() {
  return {"grpo-7", {"vllm:http://127.0.0.1:8000", "vllm:http://127.0.0.1:8001"},
          41,       "sha256:cd",
          42,       ""};
}

TEST(SwitchJournalTest, GivesBackWhatWasWrittenLast) {
  const TempDir directory;
  const SwitchJournal journal(directory.path() / "engines.json");
  EXPECT_EQ(journal.Read(), std::nullopt);
  SwitchRecord record = Example();
  journal.Write(record);
  record.boot_id = replica::BootId();
  EXPECT_EQ(journal.Read(), record);
  record.serving = board::kNoVersion;
  journal.Write(record);
  EXPECT_EQ(journal.Read(), record);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1);
}

TEST(SwitchJournalTest, DoesNotBelieveAnotherBootOrADamagedRecord) {
  const TempDir directory;
  const fs::path file = directory.path() / "engines.json";
  const SwitchJournal journal(file);
  journal.Write(Example());
  std::string text = ReadFile(file, 1 << 20);
  for (size_t cut = 0; cut < text.size() - 2; ++cut) {
    WriteFileAtomic(file, AsBytes(text.substr(0, cut)));
    EXPECT_EQ(journal.Read(), std::nullopt) << cut;
  }
  const size_t at = text.find(replica::BootId());
  text[at] = text[at] == '0' ? '1' : '0';
  WriteFileAtomic(file, AsBytes(text));
  EXPECT_EQ(journal.Read(), std::nullopt);
}

}  // namespace
}  // namespace isthmus::sidecar
