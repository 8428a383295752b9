// Publishers as Python holds them: with their board, their threads, and a way on after Ctrl-C.
#ifndef ISTHMUS_PYTHON_SRC_SESSION_H_
#define ISTHMUS_PYTHON_SRC_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "board.h"
#include "call.h"

namespace isthmus::python {

// A publisher that goes on after a call that was stopped: it is made anew, and so finds out what
// the log says. `Publisher` is publish::Publisher or ranks::RankPublisher.
template <typename Publisher>
class Session {
 public:
  using Make = std::function<std::unique_ptr<Publisher>(board::Board&, Machine&)>;

  Session(BoardPlace place, size_t threads, Make make)
      : board_(std::move(place)), machine_(threads), make_(std::move(make)) {}

  // Makes the publisher; apart from the constructor, because it takes long.
  void Open() {
    Call<bool>([](Publisher& /*publisher*/) { return true; });
  }

  // Its threads, for the work of a Call.
  ThreadPool& pool() { return machine_.pool(); }

  template <typename Result>
  Result Call(const std::function<Result(Publisher&)>& work) {
    bool stopped = false;
    const auto stop = [&] {
      stopped = true;
      board_.Stop();
    };
    try {
      return machine_.Call<Result>([&] { return work(Get()); }, stop);
    } catch (...) {
      if (stopped) publisher_.reset();
      throw;
    }
  }

 private:
  Publisher& Get() {
    if (!publisher_) {
      open_ = board_.Get();
      publisher_ = make_(open_->board, machine_);
    }
    return *publisher_;
  }

  BoardHandle board_;
  Machine machine_;
  Make make_;
  std::shared_ptr<OpenBoard> open_;
  std::unique_ptr<Publisher> publisher_;
};

}  // namespace isthmus::python

#endif  // ISTHMUS_PYTHON_SRC_SESSION_H_
