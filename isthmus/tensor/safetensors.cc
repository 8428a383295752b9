#include "isthmus/tensor/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <iterator>
#include <tuple>

#include "isthmus/base/error.h"

namespace isthmus::tensor {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr uint64_t kLengthBytes = 8;
// What a message shows of a name, which may be as long as the header.
constexpr size_t kShownBytes = 100;

std::string Shown(std::string_view name) {
  return fmt::format("{:?}", name.substr(0, kShownBytes));
}

bool IsUtf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

// Where a file's parts lie, known before its header is read.
struct Extent {
  uint64_t header_bytes;
  uint64_t file_bytes;
  uint64_t data_bytes() const { return file_bytes - header_bytes; }
};

using Field = dom::key_value_pair;

// The members of an object by key. simdjson keeps duplicate keys; JSON readers differ in which one
// they believe, so they are refused.
std::vector<Field> FieldsOf(dom::object object, std::string_view what) {
  std::vector<Field> fields(object.begin(), object.end());
  std::ranges::sort(fields, {}, &Field::key);
  const auto twice = std::ranges::adjacent_find(fields, {}, &Field::key);
  if (twice != fields.end()) {
    Throw(ErrorCode::kCorrupt, "{}: key {} occurs twice", what, Shown(twice->key));
  }
  return fields;
}

std::string_view TextOf(dom::element element, std::string_view what) {
  std::string_view text;
  if (element.get(text) != simdjson::SUCCESS) {
    Throw(ErrorCode::kCorrupt, "{}: expected a string", what);
  }
  // An escaped lone surrogate passes the JSON parser but is not Unicode.
  if (!IsUtf8(text)) Throw(ErrorCode::kCorrupt, "{}: {} is not UTF-8", what, Shown(text));
  return text;
}

// The unsigned integers of an array of at most max_count.
std::vector<uint64_t> NumbersOf(dom::element element, size_t max_count, std::string_view what) {
  dom::array array;
  if (element.get(array) != simdjson::SUCCESS) {
    Throw(ErrorCode::kCorrupt, "{}: expected an array", what);
  }
  std::vector<uint64_t> numbers;
  for (dom::element item : array) {
    uint64_t number = 0;
    if (numbers.size() == max_count) {
      Throw(ErrorCode::kCorrupt, "{}: more than the {} numbers allowed", what, max_count);
    }
    if (item.get(number) != simdjson::SUCCESS) {
      Throw(ErrorCode::kCorrupt, "{}: element {} is not an unsigned 64-bit integer", what,
            numbers.size());
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::map<std::string, std::string> ReadMetadata(dom::element element) {
  dom::object object;
  if (element.get(object) != simdjson::SUCCESS) {
    Throw(ErrorCode::kCorrupt, "{}: expected a map of strings to strings", kMetadataKey);
  }
  std::map<std::string, std::string> metadata;
  for (const Field& field : FieldsOf(object, kMetadataKey)) {
    const std::string what = fmt::format("{}, key {}", kMetadataKey, Shown(field.key));
    if (!IsUtf8(field.key)) Throw(ErrorCode::kCorrupt, "{}: not UTF-8", what);
    metadata.emplace(field.key, TextOf(field.value, what));
  }
  return metadata;
}

void CheckTensorName(std::string_view name) {
  if (IsTensorName(name)) return;
  Throw(ErrorCode::kCorrupt,
        "tensor {} ({} bytes): a name has 1 to {} bytes of UTF-8 without control characters",
        Shown(name), name.size(), kMaxNameBytes);
}

// The three members of a tensor's entry.
struct Entry {
  dom::element dtype;
  dom::element shape;
  dom::element offsets;
};

Entry ReadEntry(dom::element element, std::string_view what) {
  dom::object object;
  if (element.get(object) != simdjson::SUCCESS) {
    Throw(ErrorCode::kCorrupt, "{}: expected an object", what);
  }
  const std::vector<Field> fields = FieldsOf(object, what);
  for (const Field& field : fields) {
    if (field.key == "data_offsets" || field.key == "dtype" || field.key == "shape") continue;
    Throw(ErrorCode::kCorrupt, "{}: unknown key {}; dtype, shape and data_offsets are allowed",
          what, Shown(field.key));
  }
  if (fields.size() != 3) {
    Throw(ErrorCode::kCorrupt, "{}: {} of the keys dtype, shape and data_offsets, expected all",
          what, fields.size());
  }
  return {fields[1].value, fields[2].value, fields[0].value};
}

// Fills in begin and end from data_offsets, which count from the end of the header.
void ReadOffsets(dom::element element, const Extent& extent, std::string_view what,
                 TensorInfo* info) {
  const std::vector<uint64_t> offsets =
      NumbersOf(element, 2, fmt::format("{}, data_offsets", what));
  if (offsets.size() != 2) {
    Throw(ErrorCode::kCorrupt, "{}, data_offsets: {} numbers, expected 2", what, offsets.size());
  }
  const uint64_t begin = offsets[0];
  const uint64_t end = offsets[1];
  if (begin > end || end > extent.data_bytes()) {
    Throw(ErrorCode::kCorrupt,
          "{}: data_offsets [{}, {}], expected rising ones within the file's {} bytes of data",
          what, begin, end, extent.data_bytes());
  }
  const uint64_t bytes = BytesOf(info->name, info->dtype, info->shape);
  if (end - begin != bytes) {
    Throw(ErrorCode::kCorrupt, "{}: data_offsets [{}, {}] span {} bytes, {} [{}] has {}", what,
          begin, end, end - begin, DtypeName(info->dtype), fmt::join(info->shape, ", "), bytes);
  }
  info->begin = extent.header_bytes + begin;
  info->end = extent.header_bytes + end;
}

TensorInfo ReadTensor(const Field& field, const Extent& extent) {
  CheckTensorName(field.key);
  const std::string what = fmt::format("tensor {}", Shown(field.key));
  const Entry entry = ReadEntry(field.value, what);
  const std::string_view dtype_name = TextOf(entry.dtype, fmt::format("{}, dtype", what));
  const std::optional<Dtype> dtype = ParseDtype(dtype_name);
  if (!dtype) Throw(ErrorCode::kCorrupt, "{}: unknown dtype {}", what, Shown(dtype_name));
  TensorInfo info;
  info.name = field.key;
  info.dtype = *dtype;
  info.shape = NumbersOf(entry.shape, kMaxRank, fmt::format("{}, shape", what));
  ReadOffsets(entry.offsets, extent, what, &info);
  return info;
}

// Sorts tensors into file order and checks that they are the data, byte for byte.
void OrderAndCheckCoverage(const Extent& extent, std::vector<TensorInfo>* tensors) {
  std::ranges::sort(*tensors, {}, [](const TensorInfo& info) {
    return std::tuple<uint64_t, uint64_t, std::string_view>(info.begin, info.end, info.name);
  });
  uint64_t covered = extent.header_bytes;
  for (const TensorInfo& info : *tensors) {
    if (info.begin != covered) {
      Throw(ErrorCode::kCorrupt,
            "tensor {}: begins at byte {} of the data, {} the end of the one before, {}",
            Shown(info.name), info.begin - extent.header_bytes,
            info.begin < covered ? "before" : "after", covered - extent.header_bytes);
    }
    covered = info.end;
  }
  if (covered != extent.file_bytes) {
    Throw(ErrorCode::kCorrupt, "{} bytes after the last tensor, none allowed",
          extent.file_bytes - covered);
  }
}

// The JSON without its padding.
std::string_view Unpadded(std::string_view text) {
  if (!text.starts_with('{')) {
    Throw(ErrorCode::kCorrupt, "header begins with {}, expected '{{'", Shown(text.substr(0, 1)));
  }
  const std::string_view json = text.substr(0, text.find_last_not_of(' ') + 1);
  if (!json.ends_with('}')) {
    Throw(ErrorCode::kCorrupt, "header ends with {}, expected '}}' and spaces",
          Shown(json.substr(json.size() - 1)));
  }
  return json;
}

SafetensorsHeader ParseHeader(std::string_view text, const Extent& extent) {
  // simdjson reads past the end of its input, so it gets a padded copy.
  const simdjson::padded_string json(Unpadded(text));
  dom::parser parser;
  dom::object object;
  const simdjson::error_code error = parser.parse(json).get(object);
  if (error != simdjson::SUCCESS) {
    Throw(ErrorCode::kCorrupt, "header is not JSON: {}", simdjson::error_message(error));
  }
  SafetensorsHeader header;
  header.header_bytes = extent.header_bytes;
  for (const Field& field : FieldsOf(object, "header")) {
    if (field.key == kMetadataKey) {
      header.metadata = ReadMetadata(field.value);
    } else {
      header.tensors.push_back(ReadTensor(field, extent));
    }
  }
  OrderAndCheckCoverage(extent, &header.tensors);
  return header;
}

void CheckHeaderLength(uint64_t json_bytes) {
  if (json_bytes <= kMaxHeaderBytes) return;
  Throw(ErrorCode::kCorrupt, "header of {} bytes, at most {} allowed", json_bytes, kMaxHeaderBytes);
}

std::string Quoted(std::string_view text) {
  return boost::json::serialize(boost::json::string_view(text.data(), text.size()));
}

std::string MetadataJson(const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> items;
  items.reserve(metadata.size());
  for (const auto& [key, value] : metadata) {
    items.push_back(fmt::format("{}:{}", Quoted(key), Quoted(value)));
  }
  return fmt::format("{}:{{{}}}", Quoted(kMetadataKey), fmt::join(items, ","));
}

// The JSON, padded; *data_bytes is set to the size of the data that it describes.
std::string HeaderJson(const std::vector<TensorInfo>& tensors,
                       const std::map<std::string, std::string>& metadata, uint64_t* data_bytes) {
  std::vector<std::string> items;
  if (!metadata.empty()) items.push_back(MetadataJson(metadata));
  *data_bytes = 0;
  for (const TensorInfo& info : tensors) {
    CheckTensorName(info.name);
    const uint64_t begin = *data_bytes;
    if (!CheckedAdd(begin, BytesOf(info.name, info.dtype, info.shape), data_bytes)) {
      Throw(ErrorCode::kCorrupt, "tensor {}: the data ends beyond 64 bits", Shown(info.name));
    }
    items.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                Quoted(info.name), DtypeName(info.dtype),
                                fmt::join(info.shape, ","), begin, *data_bytes));
  }
  std::string json = fmt::format("{{{}}}", fmt::join(items, ","));
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

}  // namespace

bool IsTensorName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || name == kMetadataKey) return false;
  const bool has_control = std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  return !has_control && IsUtf8(name);
}

uint64_t BytesOf(std::string_view name, Dtype dtype, const Shape& shape) {
  uint64_t bits = 1;
  bool fits = true;
  for (uint64_t dim : shape) fits = fits && CheckedMul(bits, dim, &bits);
  fits = fits && CheckedMul(bits, BitsOf(dtype), &bits);
  if (!fits) {
    Throw(ErrorCode::kCorrupt, "tensor {}: {} [{}] is larger than 64 bits can count", Shown(name),
          DtypeName(dtype), fmt::join(shape, ", "));
  }
  if (bits % 8 != 0) {
    Throw(ErrorCode::kCorrupt, "tensor {}: {} [{}] has {} bits, expected whole bytes", Shown(name),
          DtypeName(dtype), fmt::join(shape, ", "), bits);
  }
  return bits / 8;
}

SafetensorsHeader ParseSafetensorsHeader(ByteSpan start, uint64_t file_bytes) {
  if (start.size() < kLengthBytes) {
    Throw(ErrorCode::kCorrupt, "file of {} bytes, expected at least {}", start.size(),
          kLengthBytes);
  }
  const uint64_t json_bytes = LoadLe<uint64_t>(start.data());
  CheckHeaderLength(json_bytes);
  if (json_bytes > start.size() - kLengthBytes) {
    Throw(ErrorCode::kCorrupt, "header of {} bytes, but only {} follow its length", json_bytes,
          start.size() - kLengthBytes);
  }
  const ByteSpan text = start.subspan(kLengthBytes, static_cast<size_t>(json_bytes));
  return ParseHeader(AsText(text), {kLengthBytes + json_bytes, file_bytes});
}

SafetensorsHeader ParseSafetensors(ByteSpan file) {
  return ParseSafetensorsHeader(file, file.size());
}

ByteVector MakeSafetensorsHeader(const std::vector<TensorInfo>& tensors,
                                 const std::map<std::string, std::string>& metadata) {
  try {
    uint64_t data_bytes = 0;
    const std::string json = HeaderJson(tensors, metadata, &data_bytes);
    CheckHeaderLength(json.size());
    Extent extent = {kLengthBytes + json.size(), 0};
    if (!CheckedAdd(extent.header_bytes, data_bytes, &extent.file_bytes)) {
      Throw(ErrorCode::kCorrupt, "the file would end beyond 64 bits");
    }
    // Reading it back refuses exactly what a reader would refuse.
    ParseHeader(json, extent);
    ByteWriter writer;
    writer.Le<uint64_t>(json.size());
    writer.Append(AsBytes(json));
    return writer.Release();
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalid, fmt::format("make safetensors header: {}", error.what()));
  }
}

}  // namespace isthmus::tensor
