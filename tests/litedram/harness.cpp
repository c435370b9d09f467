// The Verilated `top` behind a C interface for ctypes.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "clocked.h"

namespace {

enum Client : uint8_t { kHost, kAccelerator, kReader };

// Result of an access besides an AXI response and kTimeout.
constexpr int kBusy = -2;

constexpr uint64_t kBurstBytes = 4096;
constexpr uint64_t kBeatBytes = sizeof(Vtop::host_wdata);

class Simulation : public Clocked {
 public:
  Simulation() {
    top_.client = kAccelerator;
    top_.eval();
  }

  void reset(uint64_t cycles) {
    top_.rst_n = 0;
    run(cycles, false);
    top_.rst_n = 1;
    run(1, false);
  }

  // Runs until the interrupt is high, if that is asked for, at most `limit` clocks.
  void run(uint64_t limit, bool until_interrupt) {
    top_.eval();
    for (uint64_t done = 0; done < limit && !(until_interrupt && top_.irq); ++done) clock();
  }

  void clear() { pulse(top_.clear); }

  // Reads with the sequential reader; returns whether it came to its end.
  bool stream(uint64_t address, uint64_t bytes, uint64_t limit) {
    select(kReader);
    top_.reader_address = address;
    top_.reader_bytes = bytes;
    pulse(top_.reader_start);
    for (uint64_t done = 0; done < limit && !top_.reader_done; ++done) clock();
    const bool complete = top_.reader_done;
    select(kAccelerator);
    return complete;
  }

  int wishbone_write(uint32_t address, uint32_t data, uint64_t limit) {
    top_.wb_adr = address / 4;
    top_.wb_dat_w = data;
    top_.wb_we = 1;
    top_.wb_cyc = 1;
    int response = kTimeout;
    for (uint64_t cycle = 0; cycle < limit && response == kTimeout; ++cycle) {
      top_.eval();
      if (top_.wb_ack) response = top_.wb_err ? 2 : 0;
      clock();
    }
    top_.wb_cyc = 0;
    top_.wb_we = 0;
    top_.eval();
    return response;
  }

  int read_register(uint32_t address, uint32_t* data, uint64_t limit) {
    top_.s_axi_control_araddr = address;
    top_.s_axi_control_arvalid = 1;
    top_.s_axi_control_rready = 1;
    int response = kTimeout;
    for (uint64_t cycle = 0; cycle < limit && response == kTimeout; ++cycle) {
      top_.eval();
      const bool taken = top_.s_axi_control_arready;
      if (top_.s_axi_control_rvalid) {
        *data = top_.s_axi_control_rdata;
        response = top_.s_axi_control_rresp;
      }
      clock();
      if (taken) top_.s_axi_control_arvalid = 0;
    }
    top_.s_axi_control_rready = 0;
    top_.eval();
    return response;
  }

  int write_register(uint32_t address, uint32_t data, uint64_t limit) {
    top_.s_axi_control_awaddr = address;
    top_.s_axi_control_awvalid = 1;
    top_.s_axi_control_wdata = data;
    top_.s_axi_control_wvalid = 1;
    top_.s_axi_control_bready = 1;
    int response = kTimeout;
    for (uint64_t cycle = 0; cycle < limit && response == kTimeout; ++cycle) {
      top_.eval();
      const bool address_taken = top_.s_axi_control_awready;
      const bool data_taken = top_.s_axi_control_wready;
      if (top_.s_axi_control_bvalid) response = top_.s_axi_control_bresp;
      clock();
      if (address_taken) top_.s_axi_control_awvalid = 0;
      if (data_taken) top_.s_axi_control_wvalid = 0;
    }
    top_.s_axi_control_bready = 0;
    top_.eval();
    return response;
  }

  // The memory as the host sees it, through the controller; no burst crosses 4 KiB.

  int write_memory(uint64_t address, const uint8_t* data, uint64_t size, uint64_t limit) {
    if (top_.busy) return kBusy;
    select(kHost);
    int response = 0;
    while (size > 0 && response == 0) {
      const uint64_t part = burst_bytes(address, size);
      response = write_burst(address, data, part, limit);
      address += part;
      data += part;
      size -= part;
    }
    select(kAccelerator);
    return response;
  }

  int read_memory(uint64_t address, uint8_t* data, uint64_t size, uint64_t limit) {
    if (top_.busy) return kBusy;
    select(kHost);
    int response = 0;
    while (size > 0 && response == 0) {
      const uint64_t part = burst_bytes(address, size);
      response = read_burst(address, data, part, limit);
      address += part;
      data += part;
      size -= part;
    }
    select(kAccelerator);
    return response;
  }

  const Vtop& top() const { return top_; }

 private:
  static uint64_t burst_bytes(uint64_t address, uint64_t size) {
    return std::min(size, kBurstBytes - address % kBurstBytes);
  }

  void select(Client client) {
    top_.client = client;
    top_.eval();
  }

  void pulse(CData& pin) {
    pin = 1;
    clock();
    pin = 0;
    top_.eval();
  }

  int write_burst(uint64_t address, const uint8_t* data, uint64_t size, uint64_t limit) {
    const uint64_t base = address / kBeatBytes * kBeatBytes;
    const uint64_t beats = (address + size - 1) / kBeatBytes - base / kBeatBytes + 1;
    top_.host_awaddr = base;
    top_.host_awlen = beats - 1;
    top_.host_awvalid = 1;
    top_.host_bready = 1;
    uint64_t sent = 0;
    int response = kTimeout;
    for (uint64_t cycle = 0; cycle < limit && response == kTimeout; ++cycle) {
      top_.host_wvalid = sent < beats;
      if (sent < beats) drive_beat(base + sent * kBeatBytes, address, data, size);
      top_.host_wlast = sent + 1 == beats;
      top_.eval();
      const bool address_taken = top_.host_awvalid && top_.host_awready;
      if (top_.host_wvalid && top_.host_wready) ++sent;
      if (top_.host_bvalid) response = top_.host_bresp;
      clock();
      if (address_taken) top_.host_awvalid = 0;
    }
    top_.host_bready = 0;
    top_.eval();
    return response;
  }

  // The beat at `beat` of what is written to [address, address + size).
  void drive_beat(uint64_t beat, uint64_t address, const uint8_t* data, uint64_t size) {
    uint8_t bytes[kBeatBytes] = {};
    top_.host_wstrb = 0;
    for (uint64_t lane = 0; lane < kBeatBytes; ++lane) {
      const uint64_t byte = beat + lane;
      if (byte < address || byte >= address + size) continue;
      bytes[lane] = data[byte - address];
      top_.host_wstrb |= 1 << lane;
    }
    std::memcpy(&top_.host_wdata, bytes, kBeatBytes);
  }

  int read_burst(uint64_t address, uint8_t* data, uint64_t size, uint64_t limit) {
    const uint64_t base = address / kBeatBytes * kBeatBytes;
    top_.host_araddr = base;
    top_.host_arlen = (address + size - 1) / kBeatBytes - base / kBeatBytes;
    top_.host_arvalid = 1;
    top_.host_rready = 1;
    uint64_t beat = base;
    int response = 0;
    bool last = false;
    for (uint64_t cycle = 0; cycle < limit && !last; ++cycle) {
      top_.eval();
      const bool address_taken = top_.host_arvalid && top_.host_arready;
      if (top_.host_rvalid) {
        uint8_t bytes[kBeatBytes];
        std::memcpy(bytes, &top_.host_rdata, kBeatBytes);
        const uint64_t first = std::max(beat, address);
        const uint64_t end = std::min(beat + kBeatBytes, address + size);
        std::memcpy(data + (first - address), bytes + (first - beat), end - first);
        response = std::max<int>(response, top_.host_rresp);
        last = top_.host_rlast;
        beat += kBeatBytes;
      }
      clock();
      if (address_taken) top_.host_arvalid = 0;
    }
    top_.host_rready = 0;
    top_.eval();
    return last && beat >= address + size ? response : kTimeout;
  }
};

}  // namespace

EXPORT Simulation* litedram_create() { return new Simulation; }
EXPORT void litedram_destroy(Simulation* simulation) { delete simulation; }
EXPORT void litedram_reset(Simulation* simulation, uint64_t cycles) { simulation->reset(cycles); }
EXPORT void litedram_run(Simulation* simulation, uint64_t limit, int until_interrupt) {
  simulation->run(limit, until_interrupt != 0);
}
EXPORT int litedram_interrupt(const Simulation* simulation) { return simulation->top().irq; }
EXPORT int litedram_wishbone_write(Simulation* simulation, uint32_t address, uint32_t data,
                                   uint64_t limit) {
  return simulation->wishbone_write(address, data, limit);
}
EXPORT int litedram_read_register(Simulation* simulation, uint32_t address, uint32_t* data,
                                  uint64_t limit) {
  return simulation->read_register(address, data, limit);
}
EXPORT int litedram_write_register(Simulation* simulation, uint32_t address, uint32_t data,
                                   uint64_t limit) {
  return simulation->write_register(address, data, limit);
}
EXPORT int litedram_write_memory(Simulation* simulation, uint64_t address, const uint8_t* data,
                                 uint64_t size, uint64_t limit) {
  return simulation->write_memory(address, data, size, limit);
}
EXPORT int litedram_read_memory(Simulation* simulation, uint64_t address, uint8_t* data,
                                uint64_t size, uint64_t limit) {
  return simulation->read_memory(address, data, size, limit);
}
EXPORT int litedram_stream(Simulation* simulation, uint64_t address, uint64_t bytes,
                           uint64_t limit) {
  return simulation->stream(address, bytes, limit);
}
EXPORT void litedram_clear(Simulation* simulation) { simulation->clear(); }
// First address, first data, last data, beats, whether an address was beyond the memory.
EXPORT void litedram_counts(const Simulation* simulation, uint64_t* counts) {
  const Vtop& top = simulation->top();
  const uint64_t values[] = {top.first_address, top.first_data, top.last_data, top.data_beats,
                             top.beyond};
  std::copy(std::begin(values), std::end(values), counts);
}
EXPORT uint64_t litedram_cycles(const Simulation* simulation) { return simulation->cycles(); }
