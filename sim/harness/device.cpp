// The in-process simulation: the Verilated `simulation` behind a C interface for ctypes.
#include <cstdint>
#include <cstring>
#include <memory>

#include "Vtop.h"
#include "verilated.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Result of a register access that was not answered; otherwise it is the AXI response.
constexpr int kTimeout = -1;

class Device {
 public:
  explicit Device(const uint64_t* memory_ports) : top_(&context_) {
    // As many as there are channels; a 64-bit integer or words of 32 bits, the lowest first.
    std::memcpy(&top_.memory_port, memory_ports, sizeof top_.memory_port);
    top_.ap_rst_n = 0;
    apply();
  }

  ~Device() { top_.final(); }

  void reset(uint64_t cycles) {
    top_.s_axi_control_awvalid = 0;
    top_.s_axi_control_wvalid = 0;
    top_.s_axi_control_bready = 0;
    top_.s_axi_control_arvalid = 0;
    top_.s_axi_control_rready = 0;
    top_.ap_rst_n = 0;
    apply();
    for (uint64_t cycle = 0; cycle < cycles; ++cycle) clock();
    top_.ap_rst_n = 1;
    apply();
  }

  // Runs until the interrupt is high, at most `limit` cycles; returns the cycles run.
  uint64_t run(uint64_t limit, bool until_interrupt) {
    uint64_t done = 0;
    while (done < limit && !(until_interrupt && top_.irq)) {
      clock();
      ++done;
    }
    return done;
  }

  int read(uint32_t address, uint32_t* data, uint64_t limit) {
    top_.s_axi_control_araddr = address;
    top_.s_axi_control_arvalid = 1;
    top_.s_axi_control_rready = 1;
    apply();
    int response = kTimeout;
    for (uint64_t cycle = 0; cycle < limit && response == kTimeout; ++cycle) {
      const bool taken = top_.s_axi_control_arvalid && top_.s_axi_control_arready;
      if (top_.s_axi_control_rvalid) {
        *data = top_.s_axi_control_rdata;
        response = top_.s_axi_control_rresp;
      }
      clock();
      if (taken) top_.s_axi_control_arvalid = 0;
      if (response != kTimeout) top_.s_axi_control_rready = 0;
      apply();
    }
    return response;
  }

  int write(uint32_t address, uint32_t data, uint32_t strobe, uint64_t limit) {
    top_.s_axi_control_awaddr = address;
    top_.s_axi_control_awvalid = 1;
    top_.s_axi_control_wdata = data;
    top_.s_axi_control_wstrb = strobe;
    top_.s_axi_control_wvalid = 1;
    top_.s_axi_control_bready = 1;
    apply();
    int response = kTimeout;
    for (uint64_t cycle = 0; cycle < limit && response == kTimeout; ++cycle) {
      const bool address_taken = top_.s_axi_control_awvalid && top_.s_axi_control_awready;
      const bool data_taken = top_.s_axi_control_wvalid && top_.s_axi_control_wready;
      if (top_.s_axi_control_bvalid) response = top_.s_axi_control_bresp;
      clock();
      if (address_taken) top_.s_axi_control_awvalid = 0;
      if (data_taken) top_.s_axi_control_wvalid = 0;
      if (response != kTimeout) top_.s_axi_control_bready = 0;
      apply();
    }
    return response;
  }

  uint64_t cycles() const { return cycles_; }
  bool interrupt() const { return top_.irq; }

 private:
  // Makes the inputs set since the last clock edge take effect: all outputs are then those that
  // the coming edge sees.
  void apply() { top_.eval(); }
  // One clock cycle. The falling edge starts nothing in the design.
  void clock() {
    top_.ap_clk = 1;
    top_.eval();
    top_.ap_clk = 0;
    top_.eval();
    ++cycles_;
  }

  VerilatedContext context_;
  Vtop top_;
  uint64_t cycles_ = 0;
};

}  // namespace

// `memory_ports` are the C++ ports of all channels.
EXPORT Device* unembed_device_create(const uint64_t* memory_ports) {
  return new Device(memory_ports);
}
EXPORT void unembed_device_destroy(Device* device) { delete device; }
EXPORT void unembed_device_reset(Device* device, uint64_t cycles) { device->reset(cycles); }
EXPORT uint64_t unembed_device_run(Device* device, uint64_t limit, int until_interrupt) {
  return device->run(limit, until_interrupt != 0);
}
EXPORT int unembed_device_read(Device* device, uint32_t address, uint32_t* data, uint64_t limit) {
  return device->read(address, data, limit);
}
EXPORT int unembed_device_write(Device* device, uint32_t address, uint32_t data, uint32_t strobe,
                                uint64_t limit) {
  return device->write(address, data, strobe, limit);
}
EXPORT uint64_t unembed_device_cycles(const Device* device) { return device->cycles(); }
EXPORT int unembed_device_interrupt(const Device* device) { return device->interrupt(); }
