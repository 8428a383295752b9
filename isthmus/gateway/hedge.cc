#include "isthmus/gateway/hedge.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <utility>

namespace isthmus::gateway {
namespace {

using net::Task;
namespace asio = net::asio;

// Owns what the attempt uses: it may end after the request that it belongs to.
Task<Reply> AskAlone(net::Client& client, net::Origin url, Question question,
                     std::shared_ptr<const std::string> body, net::RequestHead head,
                     size_t whole_bytes) {
  question.body = *body;
  co_return co_await AskIsland(client, url, question, std::move(head), whole_bytes);
}

}  // namespace

struct Hedge::Running {
  Running(Pool& pool, uint32_t island) : attempt(pool, island) {}
  Attempt attempt;
  asio::cancellation_signal cancel;
};

Hedge::Hedge(net::Loop& loop, net::Client& client, Pool& pool, std::string_view body,
             size_t whole_bytes)
    : loop_(loop),
      client_(client),
      pool_(pool),
      body_(std::make_shared<const std::string>(body)),
      whole_bytes_(whole_bytes) {}

Hedge::~Hedge() {
  for (const auto& running : running_) CallOff(*running);
}

void Hedge::CallOff(Running& running) {
  running.attempt.visit.End(Outcome::kAbandoned);
  if (!running.attempt.reply) running.cancel.emit(asio::cancellation_type::terminal);
}

void Hedge::KeepOnly(const Attempt& attempt) {
  for (const auto& running : running_) {
    if (&running->attempt == &attempt) continue;
    CallOff(*running);
    // An answer that nobody reads must not stay open as long as the other one.
    if (running->attempt.reply) running->attempt.reply->call.reset();
  }
}

void Hedge::Begin(uint32_t island, Question question, net::RequestHead head) {
  auto running = std::make_shared<Running>(pool_, island);
  running_.push_back(running);
  net::Task<Reply> ask = AskAlone(client_, pool_.url(island), std::move(question), body_,
                                  std::move(head), whole_bytes_);
  auto end = [running, ended = ended_](const std::exception_ptr& cancelled, Reply reply) {
    if (cancelled) return;
    running->attempt.reply.emplace(std::move(reply));
    ended->Ring();
  };
  asio::co_spawn(loop_.get_executor(), std::move(ask),
                 asio::bind_cancellation_slot(running->cancel.slot(), std::move(end)));
}

Task<Hedge::Attempt*> Hedge::Next(net::Milliseconds limit) {
  const MonotonicTime until = MonotonicNow() + limit;
  for (;;) {
    bool waits = false;
    for (const auto& running : running_) {
      waits = waits || !running->attempt.reply;
      if (!running->attempt.reply || running->attempt.taken) continue;
      running->attempt.taken = true;
      co_return &running->attempt;
    }
    const auto left = std::chrono::ceil<net::Milliseconds>(until - MonotonicNow());
    if (!waits || left.count() <= 0) co_return nullptr;
    co_await ended_->Wait(left);
  }
}

}  // namespace isthmus::gateway
