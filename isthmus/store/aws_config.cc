#include "isthmus/store/aws_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/base/file.h"
#include "isthmus/store/ascii.h"

namespace isthmus::store {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;
// "[profile  x]" and "[profile x]" are the same section.
std::string SectionName(std::string_view text) {
  std::string name;
  for (const char c : Trim(text)) {
    const bool blank = kBlanks.find(c) != std::string_view::npos;
    if (blank && name.ends_with(' ')) continue;
    name += blank ? ' ' : c;
  }
  return name;
}

[[noreturn]] void Refuse(size_t line) {
  Throw(ErrorCode::kInvalid, "line {}: expected [SECTION] or NAME = VALUE", line);
}

std::string PathOf(const Environment& environment, const std::string& variable,
                   const std::string& name) {
  std::string named = environment(variable);
  if (!named.empty()) return named;
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.aws/" + name;
}

std::map<std::string, AwsSection> ReadAwsFile(const std::string& path) {
  if (path.empty() || !Exists(path)) return {};
  try {
    return ParseAwsFile(ReadFile(path, kMaxFileBytes));
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("read {}", path));
  }
}

void Merge(const std::map<std::string, AwsSection>& file, const std::string& section,
           AwsProfile* profile) {
  const auto found = file.find(section);
  if (found == file.end()) return;
  profile->found = true;
  profile->settings.insert(found->second.begin(), found->second.end());  // keeps what is there
}

}  // namespace

std::map<std::string, AwsSection> ParseAwsFile(std::string_view text) {
  std::map<std::string, AwsSection> sections;
  AwsSection* section = nullptr;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = Trim(whole);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const size_t close = line.find(']');
      if (close == std::string_view::npos) Refuse(number);
      section = &sections[SectionName(line.substr(1, close - 1))];
      continue;
    }
    if (kBlanks.find(whole[0]) != std::string_view::npos) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0 || section == nullptr) Refuse(number);
    (*section)[ToLower(Trim(line.substr(0, equals)))] = Trim(line.substr(equals + 1));
  }
  return sections;
}

std::string AwsProfile::Setting(const std::string& setting) const {
  const auto at = settings.find(setting);
  return at == settings.end() ? "" : at->second;
}

AwsProfile ReadAwsProfile(const Environment& environment) {
  AwsProfile profile;
  profile.name = environment("AWS_PROFILE");
  if (profile.name.empty()) profile.name = "default";
  const std::string keys = PathOf(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
  const std::string config = PathOf(environment, "AWS_CONFIG_FILE", "config");
  profile.files = fmt::format("{} and {}", keys, config);
  Merge(ReadAwsFile(keys), profile.name, &profile);
  const auto settings = ReadAwsFile(config);
  Merge(settings, "profile " + profile.name, &profile);
  if (profile.name == "default") Merge(settings, "default", &profile);
  return profile;
}

}  // namespace isthmus::store
