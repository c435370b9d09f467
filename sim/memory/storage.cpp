#include "storage.h"

#include <algorithm>
#include <cstring>

namespace unembed {

namespace {

alignas(64) const uint8_t kZeros[Storage::kPageBytes] = {};

// Calls `step(address, offset, size)` for the part of a range in each page.
template <typename Step>
void for_each_page(uint64_t address, uint64_t size, Step step) {
  for (uint64_t offset = 0; offset < size;) {
    const uint64_t within = (address + offset) & (Storage::kPageBytes - 1);
    const uint64_t part = std::min(size - offset, Storage::kPageBytes - within);
    step(address + offset, offset, part);
    offset += part;
  }
}

}  // namespace

void Storage::cache_read(uint64_t number) {
  const auto page = pages_.find(number);
  read_data_ = page == pages_.end() ? kZeros : page->second.data;
  read_number_ = number;
}

void Storage::cache_write(uint64_t number) {
  Page& page = pages_[number];
  if (!page.owned) {
    page.owned = std::make_unique<uint8_t[]>(kPageBytes);
    if (page.data) std::memcpy(page.owned.get(), page.data, kPageBytes);
    page.data = page.owned.get();
    if (read_number_ == number) read_number_ = kNoPage;
  }
  write_data_ = page.owned.get();
  write_number_ = number;
}

void Storage::forget() {
  read_number_ = kNoPage;
  write_number_ = kNoPage;
}

void Storage::read(uint64_t address, uint8_t* data, uint64_t size) {
  for_each_page(address, size, [&](uint64_t at_address, uint64_t offset, uint64_t part) {
    std::memcpy(data + offset, at(at_address), part);
  });
}

void Storage::write(uint64_t address, const uint8_t* data, uint64_t size) {
  for_each_page(address, size, [&](uint64_t at_address, uint64_t offset, uint64_t part) {
    std::memcpy(writable_at(at_address), data + offset, part);
  });
}

void Storage::map(uint64_t address, const uint8_t* data, uint64_t size) {
  for_each_page(address, size, [&](uint64_t at_address, uint64_t offset, uint64_t part) {
    if (part < kPageBytes) {
      std::memcpy(writable_at(at_address), data + offset, part);
      return;
    }
    Page& page = pages_[at_address >> kPageBits];
    page.owned.reset();
    page.data = data + offset;
  });
  forget();
}

uint64_t Storage::owned_pages() const {
  return std::count_if(pages_.begin(), pages_.end(),
                       [](const auto& entry) { return bool(entry.second.owned); });
}

}  // namespace unembed
