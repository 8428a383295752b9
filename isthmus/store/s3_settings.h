// What S3 location, options and environment say together.
#ifndef ISTHMUS_STORE_S3_SETTINGS_H_
#define ISTHMUS_STORE_S3_SETTINGS_H_

#include <string>

#include "isthmus/store/environment.h"
#include "isthmus/store/http_url.h"
#include "isthmus/store/sigv4.h"
#include "isthmus/store/store.h"

namespace isthmus::store {

struct S3Settings {
  std::string bucket;
  std::string prefix;  // empty, or a key and '/'
  std::string region;
  std::string ca_file;
  HttpUrl endpoint;  // without the bucket; of Amazon it follows from the region
  bool at_amazon = false;
  bool virtual_host = false;
  SigningDialect dialect = kAmazonDialect;

  // `location` is "s3://BUCKET[/PREFIX]". kInvalid if it breaks the rules for buckets and keys, or
  // for an endpoint that has a path.
  static S3Settings Resolve(const std::string& location, const StoreOptions& options,
                            const Environment& environment);

  // Signs for another region from now on; at Amazon requests go there, too.
  void MoveTo(const std::string& other_region);

  std::string Host() const;  // as the Host header says it
  // Encoded; of the bucket itself if `key` is empty, else of prefix + key.
  std::string Path(const std::string& key) const;
  std::string Url(const std::string& path) const { return endpoint.scheme + "://" + Host() + path; }
  std::string Describe() const;  // the location
};

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_S3_SETTINGS_H_
