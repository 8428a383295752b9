// The files that AWS's tools read: ~/.aws/credentials and ~/.aws/config.
// https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html
#ifndef ISTHMUS_STORE_AWS_CONFIG_H_
#define ISTHMUS_STORE_AWS_CONFIG_H_

#include <map>
#include <string>
#include <string_view>

#include "isthmus/store/environment.h"

namespace isthmus::store {

using AwsSection = std::map<std::string, std::string>;

// Sections by name ("default", "profile x"), settings by name in lower case. Lines that begin with
// '#' or ';' are comments; indented ones, a setting's own settings, are left out; of settings and
// sections that occur twice the last setting counts. kInvalid, with the line's number and never its
// text (it may be a secret), for lines that are neither.
std::map<std::string, AwsSection> ParseAwsFile(std::string_view text);

struct AwsProfile {
  std::string name;
  bool found = false;  // in one of the files
  AwsSection settings;
  std::string files;  // where it was looked for, for messages

  // A setting's value, empty if there is none.
  std::string Setting(const std::string& setting) const;
};

// The profile that AWS_PROFILE names, else "default", from AWS_SHARED_CREDENTIALS_FILE and
// AWS_CONFIG_FILE, else from ~/.aws. What the first file says wins. Files that do not exist are
// empty; errors as ParseAwsFile and ReadFile, with the path.
AwsProfile ReadAwsProfile(const Environment& environment);

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_AWS_CONFIG_H_
