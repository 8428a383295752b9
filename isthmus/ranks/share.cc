#include "isthmus/ranks/share.h"

#include <algorithm>
#include <boost/json/value.hpp>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"

namespace isthmus::ranks {
namespace {

constexpr std::string_view kRowsKey = "isthmus.rows";

std::vector<fs::path> ShardsIn(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".safetensors") && !name.starts_with('.')) files.push_back(at->path());
  }
  if (error) ThrowErrno(error.value(), "open share", directory.string());
  if (files.empty()) {
    Throw(ErrorCode::kNotFound, "open share {}: no *.safetensors file in it", directory.string());
  }
  std::ranges::sort(files);
  return files;
}

HeldRows WholeTensor(const tensor::TensorInfo& info) {
  return {info.name, info.dtype, info.shape, 0, info.shape.empty() ? 1 : info.shape.front()};
}

// The file says of some tensors that they are rows of larger ones.
HeldRows RowsOf(const tensor::TensorInfo& info, const board::JsonFields& said) {
  HeldRows held = WholeTensor(info);
  if (!said.Has(info.name)) return held;
  const std::vector<uint64_t> rows = said.Counts(info.name);
  if (rows.size() != 2) said.Refuse(info.name, "expected [first row, rows of the whole tensor]");
  if (info.shape.empty()) said.Refuse(info.name, "a tensor without dimensions has no rows");
  if (rows[0] > rows[1] || held.rows > rows[1] - rows[0]) {
    said.Refuse(info.name,
                fmt::format("{} rows from row {} on, of {} in all", held.rows, rows[0], rows[1]));
  }
  held.first_row = rows[0];
  held.shape.front() = rows[1];
  tensor::BytesOf(held.name, held.dtype, held.shape);  // that it has a size at all
  return held;
}

void CheckNamesExist(const board::JsonFields& said, const tensor::SafetensorsHeader& header) {
  for (const std::string& name : said.Keys()) {
    if (std::ranges::find(header.tensors, name, &tensor::TensorInfo::name) ==
        header.tensors.end()) {
      said.Refuse(name, "the file has no such tensor");
    }
  }
}

}  // namespace

ShareDirectory ShareDirectory::Open(const fs::path& directory) {
  ShareDirectory share;
  share.directory_ = directory;
  for (const fs::path& file : ShardsIn(directory)) {
    try {
      share.AddFile(file);
    } catch (const Error& error) {
      throw error.Annotated(fmt::format("open share {}", file.string()));
    }
  }
  return share;
}

void ShareDirectory::AddFile(const fs::path& file) {
  stamps_[file] = StampOf(file);
  files_.emplace_back(file, Access::kRead);
  const ByteSpan bytes = files_.back().bytes();
  const tensor::SafetensorsHeader header = tensor::ParseSafetensors(bytes);
  const auto rows = header.metadata.find(std::string(kRowsKey));
  const auto document = board::ParseJson(rows == header.metadata.end() ? "{}" : rows->second);
  const board::JsonFields said(document, std::string(kRowsKey));
  CheckNamesExist(said, header);
  for (const tensor::TensorInfo& info : header.tensors) {
    tensors_.push_back({RowsOf(info, said), bytes.subspan(info.begin, info.bytes())});
  }
}

ShareDirectory::Stamp ShareDirectory::StampOf(const fs::path& file) {
  std::error_code error;
  Stamp stamp;
  stamp.bytes = fs::file_size(file, error);
  if (!error) stamp.modified = fs::last_write_time(file, error);
  if (error) ThrowErrno(error.value(), "look at", file.string());
  return stamp;
}

void ShareDirectory::CheckUnchanged() const {
  for (const auto& [file, stamp] : stamps_) {
    if (StampOf(file) == stamp) continue;
    Throw(ErrorCode::kConflict, "read share {}: it changed while it was being read", file.string());
  }
  for (const MappedFile& file : files_) file.CheckIntact();
}

}  // namespace isthmus::ranks
