// A board as Python holds it.
#ifndef ISTHMUS_PYTHON_SRC_BOARD_H_
#define ISTHMUS_PYTHON_SRC_BOARD_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/board/board.h"

namespace isthmus::python {

// Where a board is and how to reach it, as the command line's options say it.
struct BoardPlace {
  std::string url;
  store::StoreOptions store;
  std::vector<std::string> trust;  // files of public keys
  std::string sign_key;            // file of a private key; empty: nothing is signed
};

// A board whose requests can be given up.
struct OpenBoard {
  std::stop_source stop;
  board::Board board;

  static std::unique_ptr<OpenBoard> At(const BoardPlace& place, std::stop_source stop);
};

// Opens a board when it is first asked for, and anew after Stop. Thread-safe.
class BoardHandle {
 public:
  explicit BoardHandle(BoardPlace place) : place_(std::move(place)) {}

  const BoardPlace& place() const { return place_; }
  std::shared_ptr<OpenBoard> Get();
  // Gives up what is going on, opening included.
  void Stop();

 private:
  const BoardPlace place_;
  std::mutex mutex_;
  std::stop_source stop_;
  std::shared_ptr<OpenBoard> open_;
};

// Of a Python object that is a Board; nanobind::cast_error if it is none. The reference lives as
// long as the object.
BoardHandle& HandleOf(nanobind::handle board);

}  // namespace isthmus::python

#endif  // ISTHMUS_PYTHON_SRC_BOARD_H_
