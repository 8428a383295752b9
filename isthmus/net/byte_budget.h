// A bound on what many requests hold in memory together.
#ifndef ISTHMUS_NET_BYTE_BUDGET_H_
#define ISTHMUS_NET_BYTE_BUDGET_H_

#include <cstdint>
#include <utility>

namespace isthmus::net {

// Used on one thread; must outlive its shares.
class ByteBudget {
 public:
  // What one request holds; given back when it ends.
  class Share {
   public:
    explicit Share(ByteBudget& budget) : budget_(&budget) {}
    Share(Share&& other) noexcept
        : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&&) = delete;
    ~Share() { Release(); }

    // Takes so many more, or takes nothing and says false.
    bool Grow(uint64_t bytes) {
      if (bytes > budget_->limit_ - budget_->held_) return false;
      budget_->held_ += bytes;
      bytes_ += bytes;
      return true;
    }
    // Gives back so many of them.
    void Shrink(uint64_t bytes) {
      budget_->held_ -= bytes;
      bytes_ -= bytes;
    }
    void Release() { Shrink(bytes_); }

   private:
    ByteBudget* budget_;
    uint64_t bytes_ = 0;
  };

  explicit ByteBudget(uint64_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  uint64_t held() const { return held_; }

 private:
  uint64_t limit_;
  uint64_t held_ = 0;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_BYTE_BUDGET_H_
