// Sparse 64-bit byte storage of the simulated DRAM.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace unembed {

// A window of the 64-bit address space, filled with zeros until written. Pages exist only once
// written or mapped. External buffers are mapped without a copy and are never modified: a write
// into one replaces the page by a private copy.
class Storage {
 public:
  static constexpr unsigned kPageBits = 16;
  static constexpr uint64_t kPageBytes = uint64_t{1} << kPageBits;

  Storage(uint64_t base, uint64_t bytes) : base_(base), bytes_(bytes) {}

  bool contains(uint64_t address, uint64_t size) const {
    return size <= bytes_ && address - base_ <= bytes_ - size;
  }

  // The byte at `address`; valid up to the end of its page and until the next write or map.
  const uint8_t* at(uint64_t address) {
    const uint64_t number = address >> kPageBits;
    if (number != read_number_) [[unlikely]] cache_read(number);
    return read_data_ + (address & (kPageBytes - 1));
  }

  // Like `at`, for writing.
  uint8_t* writable_at(uint64_t address) {
    const uint64_t number = address >> kPageBits;
    if (number != write_number_) [[unlikely]] cache_write(number);
    return write_data_ + (address & (kPageBytes - 1));
  }

  // Copies out of and into the storage; the range must be contained.
  void read(uint64_t address, uint8_t* data, uint64_t size);
  void write(uint64_t address, const uint8_t* data, uint64_t size);

  // Shows `size` bytes of an external buffer at `address`. Whole pages refer to the buffer, which
  // must live as long as the storage; partial pages at the two ends are copied.
  void map(uint64_t address, const uint8_t* data, uint64_t size);

  // Pages with memory of their own, for tests of the sparseness.
  uint64_t owned_pages() const;

 private:
  struct Page {
    const uint8_t* data = nullptr;
    std::unique_ptr<uint8_t[]> owned;
  };

  // No page has this number: addresses have 64 bits, page numbers 48.
  static constexpr uint64_t kNoPage = ~uint64_t{0};

  void cache_read(uint64_t number);
  void cache_write(uint64_t number);
  void forget();

  const uint64_t base_;
  const uint64_t bytes_;
  std::unordered_map<uint64_t, Page> pages_;
  uint64_t read_number_ = kNoPage;
  const uint8_t* read_data_ = nullptr;
  uint64_t write_number_ = kNoPage;
  uint8_t* write_data_ = nullptr;
};

}  // namespace unembed
