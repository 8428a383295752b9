#include "isthmus/relay/origin.h"

#include "isthmus/base/error.h"
#include "isthmus/net/offload.h"

namespace isthmus::relay {
namespace {

// Of a distant store each call waits for a round trip or more. The pieces in memory are as many as
// the threads that fetch.
constexpr size_t kQuestionThreads = 8;
constexpr size_t kTransferThreads = 8;
constexpr char kBoardKey[] = "board.json";

// A store's range that is longer or shorter than what was asked for would end up at a wrong place.
std::string ReadRange(store::Store& store, const std::string& key, uint64_t offset,
                      uint64_t length) {
  std::string bytes = store.GetRange(key, offset, length);
  if (bytes.size() == length) return bytes;
  Throw(ErrorCode::kCorrupt, "read {} in {}: {} bytes from byte {}, {} were asked for", key,
        store.Describe(), bytes.size(), offset, length);
}

// What a client should be told: that the origin's credentials or formats are wrong is not the
// client's fault.
Error ForClients(const Error& error) {
  const bool passes = MeansDamage(error) || error.code() == ErrorCode::kUnavailable;
  return {passes ? error.code() : ErrorCode::kUnavailable, error.what()};
}

}  // namespace

Origin::Origin(OpenStore open, std::string board)
    : open_(std::move(open)),
      uuid_(std::move(board)),
      questions_(kQuestionThreads),
      transfers_(kTransferThreads) {}

Origin::~Origin() {
  questions_.join();
  transfers_.join();
}

const board::Board& Origin::Open() {
  const std::lock_guard lock(mutex_);
  if (board_) return *board_;
  board::Board board = board::Board::Open(open_());
  if (!uuid_.empty() && board.uuid() != uuid_) {
    Throw(ErrorCode::kUnavailable, "open {}: it is board {}, the cache is board {}'s",
          board.store().Describe(), board.uuid(), uuid_);
  }
  uuid_ = board.uuid();
  return board_.emplace(std::move(board));
}

std::string Origin::Identify() { return Open().uuid(); }

// A directory that is not mounted looks like an empty one.
void Origin::ExpectBoard(const board::Board& board) const {
  if (!board.store().Size(kBoardKey)) {
    Throw(ErrorCode::kUnavailable, "look for {} in {}: the board is gone", kBoardKey,
          board.store().Describe());
  }
}

// Runs `work` with the board, counts, and words what goes wrong.
template <typename Work>
auto Origin::Call(Work& work) {
  ++counters_.calls;
  try {
    const board::Board* board = nullptr;
    try {
      board = &Open();
    } catch (const Error& error) {
      throw Error(ErrorCode::kUnavailable, error.what());
    }
    auto result = work(*board);
    counters_.reachable = true;
    return result;
  } catch (const Error& error) {
    ++counters_.failures;
    if (error.code() == ErrorCode::kUnavailable) counters_.reachable = false;
    throw ForClients(error);
  }
}

template <typename Work>
net::Task<std::invoke_result_t<Work&, const board::Board&>> Origin::Ask(
    net::asio::thread_pool& threads, Work work) {
  auto call = [this, work = std::move(work)]() mutable { return Call(work); };
  co_return co_await net::Offload(threads, std::move(call));
}

net::Task<std::optional<uint64_t>> Origin::Size(std::string key) {
  auto work = [this, key = std::move(key)](const board::Board& board) {
    const std::optional<uint64_t> size = board.store().Size(key);
    if (!size) ExpectBoard(board);
    return size;
  };
  return Ask(questions_, std::move(work));
}

net::Task<std::optional<std::string>> Origin::Get(std::string key, uint64_t max_bytes) {
  auto work = [this, key = std::move(key), max_bytes](const board::Board& board) {
    std::optional<std::string> content = board.store().Get(key, max_bytes);
    if (!content) ExpectBoard(board);
    counters_.bytes += content ? content->size() : 0;
    return content;
  };
  return Ask(questions_, std::move(work));
}

net::Task<std::vector<std::string>> Origin::List(std::string prefix) {
  auto work = [this, prefix = std::move(prefix)](const board::Board& board) {
    std::vector<std::string> keys = board.store().List(prefix);
    if (keys.empty()) ExpectBoard(board);
    return keys;
  };
  return Ask(questions_, std::move(work));
}

net::Task<board::VersionNumber> Origin::Head(std::string run) {
  auto work = [this, run = std::move(run)](const board::Board& board) {
    const board::VersionNumber head = board.Head(run);
    if (head == board::kNoVersion) ExpectBoard(board);
    return head;
  };
  return Ask(questions_, std::move(work));
}

net::Task<std::string> Origin::Range(std::string key, uint64_t offset, uint64_t length) {
  auto work = [this, key = std::move(key), offset, length](const board::Board& board) {
    std::string bytes = ReadRange(board.store(), key, offset, length);
    counters_.bytes += bytes.size();
    return bytes;
  };
  return Ask(transfers_, std::move(work));
}

net::Task<bool> Origin::FetchPiece(std::string key, CacheFileWriter& file, size_t piece) {
  auto work = [this, key = std::move(key), &file, piece](const board::Board& board) {
    const std::string bytes =
        ReadRange(board.store(), key, piece * kPieceBytes, file.piece_bytes(piece));
    counters_.bytes += bytes.size();
    try {
      file.Write(piece, AsBytes(bytes));
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  return Ask(transfers_, std::move(work));
}

}  // namespace isthmus::relay
