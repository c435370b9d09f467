// Runs three multiplier pairs over all values of their operands, and says where one is wrong.
#include <cstdint>
#include <cstdio>

#include "Vtop.h"

namespace {

constexpr int CLOCKS = 24;  // log2 of as many as the operands of a pair have values
constexpr int LATENCY = 4;

int32_t field(uint32_t value, int low, int bits) {
  return static_cast<int32_t>(value << (32 - low - bits)) >> (32 - bits);
}

bool wrong(const char* name, uint32_t operands, int bits, int shared_bits, uint32_t first_product,
           uint32_t second_product) {
  const int32_t first = field(operands, 0, bits);
  const int32_t second = field(operands, bits, bits);
  const int32_t shared = field(operands, 2 * bits, shared_bits);
  const int32_t first_found = field(first_product, 0, bits + shared_bits);
  const int32_t second_found = field(second_product, 0, bits + shared_bits);
  if (first_found == first * shared && second_found == second * shared) return false;
  std::printf("%s: %d and %d times %d: %d and %d\n", name, first, second, shared, first_found,
              second_found);
  return true;
}

}  // namespace

int main() {
  Vtop top;
  for (uint32_t clock = 0; clock < (1u << CLOCKS) + LATENCY; ++clock) {
    top.operands = clock & ((1u << CLOCKS) - 1);
    top.clk = 0;
    top.eval();
    if (clock >= LATENCY) {
      const uint32_t operands = clock - LATENCY;
      if (wrong("4 x 8", operands, 4, 8, top.first_4_8, top.second_4_8) ||
          wrong("4 x 16", operands, 4, 16, top.first_4_16, top.second_4_16) ||
          wrong("8 x 8", operands, 8, 8, top.first_8_8, top.second_8_8))
        return 1;
    }
    top.clk = 1;
    top.eval();
  }
  return 0;
}
