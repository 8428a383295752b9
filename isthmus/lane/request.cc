#include "isthmus/lane/request.h"

#include <charconv>

#include "isthmus/base/error.h"

namespace isthmus::lane {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

using board::kMaxVersion;

// How much of a wrong value an error repeats.
constexpr size_t kShownCharacters = 40;

uint64_t ParseNumber(std::string_view field, std::string_view text, uint64_t max) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > max) {
    Throw(ErrorCode::kInvalid, "{}: {:?}, allowed are whole numbers from 0 to {}", field,
          text.substr(0, kShownCharacters), max);
  }
  return value;
}

// `digits` is at most `max` in units of `unit`.
milliseconds ParseTime(std::string_view field, std::string_view digits, milliseconds unit,
                       milliseconds max) {
  const auto value = ParseNumber(field, digits, static_cast<uint64_t>(max / unit));
  return static_cast<int64_t>(value) * unit;
}

void CheckAtMost(std::string_view field, VersionNumber version) {
  if (version <= kMaxVersion) return;
  Throw(ErrorCode::kInvalid, "{}: {}, allowed are whole numbers from 0 to {}", field, version,
        kMaxVersion);
}

void CheckTime(std::string_view field, std::optional<milliseconds> time, milliseconds max) {
  if (!time || (milliseconds(0) <= *time && *time <= max)) return;
  Throw(ErrorCode::kInvalid, "{}: {} ms, allowed are 0 to {} ms", field, time->count(),
        max.count());
}

void CheckName(std::string_view field, const std::string& name) {
  try {
    board::CheckRunName(name);
  } catch (const Error&) {
    Throw(ErrorCode::kInvalid,
          "{}: {:?}, allowed are 1 to 128 characters of [A-Za-z0-9._-], the first not '.'", field,
          name.substr(0, kShownCharacters));
  }
}

template <typename Field>
Field MergeField(std::string_view field, const Field& body, const Field& headers) {
  if (body == Field()) return headers;
  if (headers != Field() && headers != body) {
    Throw(ErrorCode::kInvalid, "{}: body and headers differ", field);
  }
  return body;
}

void CheckConstraint(const Constraint& constraint) {
  const auto& [min, exact, lag_versions, lag_ms, run] = constraint;
  CheckAtMost("min_version", min.value_or(0));
  CheckAtMost("exact_version", exact.value_or(0));
  CheckAtMost("max_lag", lag_versions.value_or(0));
  CheckTime("max_lag", lag_ms, kMaxLagTime);
  if (exact == kNoVersion) {
    Throw(ErrorCode::kInvalid, "exact_version: 0, versions begin at 1");
  }
  if (exact && min.value_or(0) > *exact) {
    Throw(ErrorCode::kInvalid, "min_version: {}, above exact_version, which is {}", *min, *exact);
  }
  if (lag_versions && lag_ms) {
    Throw(ErrorCode::kInvalid, "max_lag: given in versions and in time, allowed is one of them");
  }
  if (!run.empty()) CheckName("run", run);
}

}  // namespace

VersionNumber ParseVersion(std::string_view field, std::string_view text) {
  return ParseNumber(field, text, kMaxVersion);
}

milliseconds ParseWait(std::string_view field, std::string_view text) {
  return ParseTime(field, text, milliseconds(1), kMaxWait);
}

milliseconds ParseDeadline(std::string_view field, std::string_view text) {
  const milliseconds deadline = ParseTime(field, text, milliseconds(1), kMaxDeadline);
  if (deadline.count() > 0) return deadline;
  Throw(ErrorCode::kInvalid, "{}: 0, allowed: 1 to {}", field, kMaxDeadline.count());
}

Priority ParsePriority(std::string_view field, std::string_view text) {
  if (text == "training") return Priority::kTraining;
  if (text == "evaluation") return Priority::kEvaluation;
  Throw(ErrorCode::kInvalid, "{}: {:?}, allowed: training or evaluation", field,
        text.substr(0, kMaxRequestIdBytes));
}

std::string ParseRequestId(std::string_view field, std::string_view text) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  const bool right = !text.empty() && text.size() <= kMaxRequestIdBytes &&
                     text.find_first_not_of(kAllowed) == text.npos;
  if (right) return std::string(text);
  Throw(ErrorCode::kInvalid, "{}: {:?}, allowed: 1 to {} characters of [A-Za-z0-9._-]", field,
        text.substr(0, 2 * kMaxRequestIdBytes), kMaxRequestIdBytes);
}

void ParseMaxLag(std::string_view field, std::string_view text, Constraint* constraint) {
  if (text.ends_with("ms")) {
    const auto digits = text.substr(0, text.size() - 2);
    constraint->max_lag_ms = ParseTime(field, digits, milliseconds(1), kMaxLagTime);
  } else if (text.ends_with('s')) {
    const auto digits = text.substr(0, text.size() - 1);
    constraint->max_lag_ms = ParseTime(field, digits, std::chrono::seconds(1), kMaxLagTime);
  } else {
    constraint->max_lag_versions = ParseNumber(field, text, kMaxVersion);
  }
}

Constraint Merge(const Constraint& body, const Constraint& headers) {
  return {MergeField("min_version", body.min_version, headers.min_version),
          MergeField("exact_version", body.exact_version, headers.exact_version),
          MergeField("max_lag", body.max_lag_versions, headers.max_lag_versions),
          MergeField("max_lag", body.max_lag_ms, headers.max_lag_ms),
          MergeField("run", body.run, headers.run)};
}

void Check(const Request& request) {
  CheckConstraint(request.constraint);
  CheckTime("wait_ms", request.wait_ms, kMaxWait);
  if (!request.session.empty()) CheckName("session", request.session);
  if (request.pin_session && request.session.empty()) {
    Throw(ErrorCode::kInvalid, "session: a turn is pinned, but no session is named");
  }
}

}  // namespace isthmus::lane
