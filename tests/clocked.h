// A Verilated top with one clock, `clk`, for C functions that ctypes calls.
#pragma once

#include <cstdint>

#include "Vtop.h"
#include "verilated.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// Result of an access that was not answered in time.
constexpr int kTimeout = -1;

class Clocked {
 public:
  // Clocks simulated so far.
  uint64_t cycles() const { return cycles_; }

 protected:
  Clocked() : top_(&context_) {}
  ~Clocked() { top_.final(); }

  void clock() {
    top_.clk = 1;
    top_.eval();
    top_.clk = 0;
    top_.eval();
    ++cycles_;
  }

 private:
  // Before the top, which belongs to it.
  VerilatedContext context_;
  uint64_t cycles_ = 0;

 protected:
  Vtop top_;
};
