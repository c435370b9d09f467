// The Verilated system, `soc`, behind a C interface for ctypes: its clock and its Wishbone port.
#include <cstdint>

#include "clocked.h"

namespace {

// Results of an access besides kTimeout.
constexpr int kDone = 0;
constexpr int kError = 1;

class Simulation : public Clocked {
 public:
  Simulation() { top_.eval(); }

  void reset(uint64_t cycles) {
    top_.rst = 1;
    run(cycles);
    top_.rst = 0;
    run(1);
  }

  void run(uint64_t cycles) {
    for (uint64_t done = 0; done < cycles; ++done) clock();
  }

  int access(uint32_t address, uint32_t* data, bool write, uint64_t limit) {
    top_.bridge_adr = address / 4;
    top_.bridge_dat_w = *data;
    top_.bridge_sel = 15;
    top_.bridge_we = write;
    top_.bridge_cyc = 1;
    top_.bridge_stb = 1;
    int result = kTimeout;
    for (uint64_t cycle = 0; cycle < limit && result == kTimeout; ++cycle) {
      top_.eval();
      if (top_.bridge_err) result = kError;
      if (top_.bridge_ack) {
        result = kDone;
        *data = top_.bridge_dat_r;
      }
      clock();
    }
    top_.bridge_cyc = 0;
    top_.bridge_stb = 0;
    top_.bridge_we = 0;
    top_.eval();
    return result;
  }

  // Where a byte lane reads right: bitslip, delays from and to, delays with a strobe from and to.
  void plant(int lane, const uint8_t* window) {
    (lane ? top_.window1_bitslip : top_.window0_bitslip) = window[0];
    (lane ? top_.window1_first : top_.window0_first) = window[1];
    (lane ? top_.window1_last : top_.window0_last) = window[2];
    (lane ? top_.window1_strobe_first : top_.window0_strobe_first) = window[3];
    (lane ? top_.window1_strobe_last : top_.window0_strobe_last) = window[4];
    top_.eval();
  }
};

}  // namespace

EXPORT Simulation* soc_create() { return new Simulation; }
EXPORT void soc_destroy(Simulation* simulation) { delete simulation; }
EXPORT void soc_reset(Simulation* simulation, uint64_t cycles) { simulation->reset(cycles); }
EXPORT void soc_run(Simulation* simulation, uint64_t cycles) { simulation->run(cycles); }
EXPORT int soc_read(Simulation* simulation, uint32_t address, uint32_t* data, uint64_t limit) {
  return simulation->access(address, data, false, limit);
}
EXPORT int soc_write(Simulation* simulation, uint32_t address, uint32_t data, uint64_t limit) {
  return simulation->access(address, &data, true, limit);
}
EXPORT void soc_plant(Simulation* simulation, int lane, const uint8_t* window) {
  simulation->plant(lane, window);
}
EXPORT uint64_t soc_cycles(const Simulation* simulation) { return simulation->cycles(); }
