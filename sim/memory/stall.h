// Seeded random stalls of one AXI channel.
#pragma once

#include <cstdint>

namespace unembed {

struct StallOptions {
  double probability = 0;     // that a stall starts in a cycle, 0..1
  uint32_t longest = 1;       // cycles; lengths are uniform in 1..longest
  uint64_t seed = 0;
};

class Stall {
 public:
  Stall() : Stall(StallOptions{}) {}
  explicit Stall(const StallOptions& options)
      : threshold_(static_cast<uint64_t>(options.probability * 4294967296.0)),
        longest_(options.longest),
        state_(options.seed) {}

  // Whether the channel rests in the coming cycle; to be asked once a cycle.
  bool next() {
    if (threshold_ == 0) [[likely]] return false;
    if (remaining_ > 0) {
      --remaining_;
      return true;
    }
    if ((random() >> 32) >= threshold_) return false;
    remaining_ = longest_ > 1 ? (random() >> 32) % longest_ : 0;
    return true;
  }

 private:
  // SplitMix64 (Steele, Lea, Flood 2014): any seed is good, nearby seeds are unrelated.
  uint64_t random() {
    uint64_t value = state_ += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
  }

  uint64_t threshold_;
  uint32_t longest_;
  uint64_t state_;
  uint32_t remaining_ = 0;
};

}  // namespace unembed
