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

// What Python's publishers have in common: a session whose publisher keeps a baseline, in the given
// directory or else where `default_place` says. Neither copied nor moved: the session refers to it.
template <typename Publisher>
class BaselineSession {
 public:
  using DefaultPlace = std::function<fs::path(const board::Board&)>;
  using Make = std::function<std::unique_ptr<Publisher>(board::Board&, const fs::path&, Machine&)>;

  BaselineSession(BoardPlace place, size_t threads, std::string baseline,
                  DefaultPlace default_place, Make make)
      : baseline_(std::move(baseline)),
        session_(std::make_unique<Session<Publisher>>(
            std::move(place), threads,
            [this, default_place = std::move(default_place), make = std::move(make)](
                board::Board& board, Machine& machine) {
              const fs::path at = baseline_.empty() ? default_place(board) : fs::path(baseline_);
              auto made = make(board, at, machine);
              baseline_ = at.string();
              return made;
            })) {}
  BaselineSession(const BaselineSession&) = delete;
  BaselineSession& operator=(const BaselineSession&) = delete;

  void Open() const { session_.Get().Open(); }
  void Close() { session_.Close(); }
  const std::string& baseline() const {
    session_.Get();
    return baseline_;
  }

 protected:
  ~BaselineSession() = default;
  Session<Publisher>& session() const { return session_.Get(); }

 private:
  std::string baseline_;
  Owned<Session<Publisher>> session_;
};

}  // namespace isthmus::python

#endif  // ISTHMUS_PYTHON_SRC_SESSION_H_
