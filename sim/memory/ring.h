// A queue that allocates only to grow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace unembed {

// Items are numbered from 0 in the order in which they were pushed, forever; the queue holds those
// from `first` to before `end`.
template <typename Item>
class Ring {
 public:
  explicit Ring(size_t capacity = 64) : items_(capacity) {}  // a power of two

  bool empty() const { return first_ == end_; }
  size_t size() const { return end_ - first_; }
  uint64_t first() const { return first_; }
  uint64_t end() const { return end_; }

  Item& front() { return (*this)[first_]; }
  const Item& front() const { return (*this)[first_]; }
  Item& operator[](uint64_t number) { return items_[number & (items_.size() - 1)]; }
  const Item& operator[](uint64_t number) const { return items_[number & (items_.size() - 1)]; }

  void push(const Item& item) {
    if (size() == items_.size()) [[unlikely]] grow();
    (*this)[end_++] = item;
  }
  void pop() { ++first_; }
  // Drops the items before `number`.
  void pop_before(uint64_t number) { first_ = number; }
  void clear() { first_ = end_; }

 private:
  void grow() {
    std::vector<Item> larger(items_.size() * 2);
    for (uint64_t number = first_; number < end_; ++number) {
      larger[number & (larger.size() - 1)] = (*this)[number];
    }
    items_ = std::move(larger);
  }

  std::vector<Item> items_;
  uint64_t first_ = 0;
  uint64_t end_ = 0;
};

}  // namespace unembed
