#include "isthmus/gateway/island_call.h"

#include <fmt/format.h>

#include <charconv>

#include "isthmus/base/error.h"
#include "isthmus/gateway/router.h"
#include "isthmus/gateway/version_ends.h"
#include "isthmus/lane/answer_head.h"

namespace isthmus::gateway {
namespace {

using net::Task;

constexpr int kSuccess = 2;  // of status / 100

std::string_view FieldOf(const net::ResponseHead& head, std::string_view name) {
  return head.headers.Find(name).value_or("");
}

// kNoVersion for what is no version.
VersionNumber VersionOf(std::string_view text) {
  VersionNumber version = kNoVersion;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && version <= board::kMaxVersion ? version : kNoVersion;
}

std::string NoVersion(std::string_view said) {
  return fmt::format("its answer is stamped with no version (\"{}\")", said.substr(0, 32));
}

// A sidecar's own refusals, and what an engine or a proxy before it answers when it is broken.
bool IsRefusal(int status) { return status == 409 || status == 503; }
bool IsFailure(int status) { return status == 500 || status == 502 || status == 504; }

void Judge(const Question& question, Reply* reply) {
  const net::ResponseHead& head = reply->call->head();
  if (IsRefusal(head.status)) {
    reply->outcome = Outcome::kRefused;
    reply->failure = fmt::format("it answered {}", head.status);
  } else if (head.status == 504 && question.timed) {
    reply->outcome = Outcome::kAbandoned;  // the request's own deadline, which its sidecar keeps
  } else if (IsFailure(head.status)) {
    reply->outcome = Outcome::kFailed;
    reply->failure = fmt::format("it answered {}", head.status);
  } else if (head.status / 100 == kSuccess && question.generates) {
    reply->failure = BrokenPromise(head, question.constraint, question.run);
    reply->outcome = reply->failure.empty() ? Outcome::kServed : Outcome::kBrokenPromise;
  } else {
    reply->outcome = Outcome::kServed;
  }
}

Task<void> ReadBeginning(Reply* reply, size_t whole_bytes) {
  net::Call& call = *reply->call;
  const bool whole = lane::IsJson(call.head());
  while (!call.done() && reply->begun.size() < whole_bytes) {
    reply->begun += co_await call.ReadPiece();
    if (!whole && !reply->begun.empty()) co_return;
  }
}

// What the first events say, as long as another island can be asked.
void JudgeEvents(const Question& question, Reply* reply) {
  if (reply->outcome != Outcome::kServed || !question.generates) return;
  if (!lane::IsEventStream(reply->call->head())) return;
  const VersionNumber said = VersionEnds().Feed(reply->begun);
  if (said == kNoVersion) return;
  reply->failure = ExcludedVersion(question.constraint, said, "came to be");
  if (!reply->failure.empty()) reply->outcome = Outcome::kBrokenPromise;
}

Task<void> Send(net::Client& client, const net::Origin& url, const Question& question,
                net::RequestHead head, size_t whole_bytes, Reply* reply) {
  // Generating twice does no harm: no byte of the first attempt was seen by anybody.
  reply->call = co_await client.Send(url, std::move(head), question.body, net::Replay::kAlways);
  Judge(question, reply);
  if (reply->outcome == Outcome::kBrokenPromise) co_return;
  co_await ReadBeginning(reply, whole_bytes);
  JudgeEvents(question, reply);
}

}  // namespace

std::string BrokenPromise(const net::ResponseHead& head, const lane::Constraint& asked,
                          std::string_view run) {
  const std::string_view said_run = FieldOf(head, "Isthmus-Run");
  if (said_run != run) {
    return fmt::format("its answer is of the run \"{}\", not of \"{}\"", said_run.substr(0, 128),
                       run);
  }
  const std::string_view start = FieldOf(head, "Isthmus-Version-Start");
  const VersionNumber first = VersionOf(start);
  if (first == kNoVersion) return NoVersion(start);
  if (std::string broken = ExcludedVersion(asked, first, "began"); !broken.empty()) return broken;
  const std::optional<std::string_view> end = head.headers.Find("Isthmus-Version-End");
  if (!end) return {};  // a stream, which says so later
  const VersionNumber last = VersionOf(*end);
  if (last == kNoVersion) return NoVersion(*end);
  return ExcludedVersion(asked, last, "ended");
}

std::string ExcludedVersion(const lane::Constraint& asked, VersionNumber version,
                            std::string_view what) {
  lane::Constraint promised = asked;
  promised.max_lag_versions.reset();
  if (Satisfies(promised, version, kNoVersion)) return {};
  return fmt::format("its answer {} at version {}, which the request excludes", what, version);
}

Task<Reply> AskIsland(net::Client& client, const net::Origin& url, const Question& question,
                      net::RequestHead head, size_t whole_bytes) {
  Reply reply;
  std::optional<std::string> failure;
  try {
    co_await Send(client, url, question, std::move(head), whole_bytes, &reply);
  } catch (const Error& error) {
    failure = error.what();
  }
  if (failure) {
    reply.call.reset();
    reply.outcome = Outcome::kFailed;
    reply.failure = std::move(*failure);
  }
  co_return reply;
}

}  // namespace isthmus::gateway
