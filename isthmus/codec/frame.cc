#include "isthmus/codec/frame.h"

#include <zstd.h>

#include <memory>

#include "isthmus/base/error.h"

namespace isthmus::codec {
namespace {

// RFC 8878, 3.1.1: of a frame that is neither skippable nor of an older format.
constexpr uint32_t kZstdMagic = 0xFD2FB528;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

ZSTD_CCtx* CompressionContext() {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  return context.get();
}

ZSTD_DCtx* DecompressionContext() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  return context.get();
}

}  // namespace

void AppendFrame(ByteSpan content, ByteVector* out, int level) {
  const size_t start = out->size();
  out->resize(start + ZSTD_compressBound(content.size()));
  const size_t written =
      ZSTD_compressCCtx(CompressionContext(), out->data() + start, out->size() - start,
                        content.data(), content.size(), level);
  if (ZSTD_isError(written) != 0) {
    Throw(ErrorCode::kInternal, "compress {} bytes: zstd says {}", content.size(),
          ZSTD_getErrorName(written));
  }
  out->resize(start + written);
}

void ReadFrame(ByteSpan frame, MutableByteSpan content) {
  if (frame.size() < 4 || LoadLe<uint32_t>(frame.data()) != kZstdMagic) {
    Throw(ErrorCode::kCorrupt, "read zstd frame: {} bytes that do not begin one", frame.size());
  }
  if (ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    Throw(ErrorCode::kCorrupt, "read zstd frame: its end is not at byte {} as stated",
          frame.size());
  }
  const unsigned long long declared = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (declared != content.size()) {
    Throw(ErrorCode::kCorrupt, "read zstd frame: declares {} bytes of content, expected {}",
          declared >= ZSTD_CONTENTSIZE_ERROR ? "no" : std::to_string(declared), content.size());
  }
  const size_t read = ZSTD_decompressDCtx(DecompressionContext(), content.data(), content.size(),
                                          frame.data(), frame.size());
  if (ZSTD_isError(read) != 0) {
    Throw(ErrorCode::kCorrupt, "read zstd frame: {}", ZSTD_getErrorName(read));
  }
  if (read != content.size()) {
    Throw(ErrorCode::kCorrupt, "read zstd frame: {} bytes of content, expected {}", read,
          content.size());
  }
}

}  // namespace isthmus::codec
