// Many who ask the same thing at the same time: it is asked once.
#ifndef ISTHMUS_RELAY_COALESCER_H_
#define ISTHMUS_RELAY_COALESCER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/relay/errands.h"

namespace isthmus::relay {

// Used on one loop's thread. T is copied to everybody who asked.
template <typename T>
class Coalescer {
 public:
  explicit Coalescer(Errands& errands) : errands_(errands) {}

  // What `ask()`, a Task<T>, gives or throws (as an Error). While it runs, others with this name
  // get the same; it runs on if all of them are cancelled. Give `ask` as a variable, moved.
  template <typename Ask>
  net::Task<T> Do(std::string name, Ask ask) {
    std::shared_ptr<Question>& place = (*open_)[name];
    const bool first = place == nullptr;
    if (first) place = std::make_shared<Question>();
    const std::shared_ptr<Question> question = place;
    if (first) errands_.Begin(Run(open_, std::move(name), question, std::move(ask)));
    while (!question->answered) co_await question->bell.Wait(net::kUntilRung);
    if (question->failure) throw Error(*question->failure);
    co_return *question->answer;
  }

  // Who asks from now on does not get answers to what was asked before.
  void Forget() { open_->clear(); }

 private:
  struct Question {
    bool answered = false;
    std::optional<T> answer;
    std::optional<Error> failure;
    net::Bell bell;
  };
  using Open = std::map<std::string, std::shared_ptr<Question>>;

  template <typename Ask>
  static net::Task<void> Run(std::shared_ptr<Open> open, std::string name,
                             std::shared_ptr<Question> question, Ask ask) {
    try {
      question->answer.emplace(co_await ask());
    } catch (const Error& error) {
      question->failure = error;
    } catch (const std::exception& error) {
      question->failure.emplace(ErrorCode::kInternal, error.what());
    }
    const auto at = open->find(name);
    if (at != open->end() && at->second == question) open->erase(at);
    question->answered = true;
    question->bell.Ring();
  }

  Errands& errands_;
  std::shared_ptr<Open> open_ = std::make_shared<Open>();
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_COALESCER_H_
