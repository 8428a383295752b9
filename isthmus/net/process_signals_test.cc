#include "isthmus/net/process_signals.h"

#include <gtest/gtest.h>

#include <csignal>

namespace isthmus::net {
namespace {

TEST(ProcessSignalsTest, EachSignalIsToldAsOftenAsItComes) {
  Loop loop;
  int terminated = 0;
  int hung_up = 0;
  {
    ProcessSignals signals(
        loop, [&] { ++terminated; }, [&] { ++hung_up; });
    int raised = 0;
    for (int signal : {SIGHUP, SIGTERM, SIGHUP, SIGINT}) {
      raise(signal);
      ++raised;
      while (terminated + hung_up < raised) loop.run_one();
    }
  }
  EXPECT_EQ(terminated, 2);
  EXPECT_EQ(hung_up, 2);
  loop.run();  // nothing waits any more
}

}  // namespace
}  // namespace isthmus::net
