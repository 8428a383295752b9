#include "isthmus/sidecar/switch_journal.h"

#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstdio>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"
#include "isthmus/replica/state.h"

namespace isthmus::sidecar {
namespace {

namespace json = boost::json;

constexpr uint64_t kFormat = 1;
constexpr uint64_t kMaxBytes = 1 << 20;

SwitchRecord Parse(std::string_view text) {
  const json::value document = board::ParseJson(text);
  const board::JsonFields fields(document, "");
  if (fields.Count("format") != kFormat) fields.Refuse("format", "unknown");
  SwitchRecord record;
  record.run = fields.Text("run");
  record.serving = fields.Count("serving", 0, board::kMaxVersion);
  record.switching = fields.Count("switching", 0, board::kMaxVersion);
  record.layout = fields.OptionalText("layout");
  record.boot_id = fields.Text("boot_id");
  for (const board::JsonFields& engine : fields.Objects("engines")) {
    record.engines.push_back(engine.Text("name"));
  }
  return record;
}

std::string Serialize(const SwitchRecord& record) {
  json::array engines;
  for (const std::string& name : record.engines) engines.push_back(json::object{{"name", name}});
  return json::serialize(json::object{{"format", kFormat},
                                      {"run", record.run},
                                      {"engines", std::move(engines)},
                                      {"serving", record.serving},
                                      {"layout", record.layout},
                                      {"switching", record.switching},
                                      {"boot_id", record.boot_id}}) +
         "\n";
}

}  // namespace

std::optional<SwitchRecord> SwitchJournal::Read() const {
  try {
    SwitchRecord record = Parse(ReadFile(file_, kMaxBytes));
    if (record.boot_id != replica::BootId()) return std::nullopt;
    return record;
  } catch (const Error& error) {
    if (MeansDamage(error)) return std::nullopt;
    throw;
  }
}

void SwitchJournal::Write(SwitchRecord record) const {
  record.boot_id = replica::BootId();
  const fs::path temporary = file_.string() + ".new";
  File::Create(temporary).Write(AsBytes(Serialize(record)));
  if (std::rename(temporary.c_str(), file_.c_str()) != 0) {
    ThrowErrno(errno, "replace", file_.string());
  }
}

}  // namespace isthmus::sidecar
