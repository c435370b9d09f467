// The in-process simulation: the Verilated `simulation` behind a C interface for ctypes.
#include <cstdint>
#include <cstring>
#include <memory>

#include "Vtop.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Result of a register access that was not answered; otherwise it is the AXI response.
constexpr int kTimeout = -1;

class Device {
 public:
  explicit Device(const uint64_t* memory_ports) : context_(traced()), top_(context_.get()) {
    // As many as there are channels; a 64-bit integer or words of 32 bits, the lowest first.
    std::memcpy(&top_.memory_port, memory_ports, sizeof top_.memory_port);
    top_.ap_rst_n = 0;
    apply();
  }

  ~Device() {
    stop_trace();
    top_.final();
  }

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

  // Writes waveforms to `path` from now on; false if they cannot be written. A clock takes
  // `period_ps`.
  bool trace(const char* path, double period_ps) {
    stop_trace();
#if VM_TRACE
    period_ps_ = period_ps;
    trace_ = std::make_unique<VerilatedFstC>();
    top_.trace(trace_.get(), kTraceLevels);
    trace_->open(path);
    if (!trace_->isOpen()) trace_.reset();
    return trace_ != nullptr;
#else
    static_cast<void>(path), static_cast<void>(period_ps);
    return false;
#endif
  }
  void stop_trace() {
#if VM_TRACE
    if (trace_) trace_->close();
    trace_.reset();
#endif
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
    dump(0);
    top_.ap_clk = 0;
    top_.eval();
    dump(0.5);
    ++cycles_;
  }

  // Waveforms `phase` clocks after the last rising edge.
  void dump([[maybe_unused]] double phase) {
#if VM_TRACE
    if (trace_) [[unlikely]] {
      trace_->dump(static_cast<uint64_t>((static_cast<double>(cycles_) + phase) * period_ps_));
    }
#endif
  }

  static std::unique_ptr<VerilatedContext> traced() {
    auto context = std::make_unique<VerilatedContext>();
    context->traceEverOn(VM_TRACE);
    return context;
  }

  const std::unique_ptr<VerilatedContext> context_;
  Vtop top_;
#if VM_TRACE
  static constexpr int kTraceLevels = 99;  // of the hierarchy
  std::unique_ptr<VerilatedFstC> trace_;
  double period_ps_ = 0;
#endif
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
// 0 if the simulator was built without waveforms or the file cannot be written.
EXPORT int unembed_device_trace(Device* device, const char* path, double period_ps) {
  return device->trace(path, period_ps);
}
EXPORT void unembed_device_stop_trace(Device* device) { device->stop_trace(); }
EXPORT uint64_t unembed_device_cycles(const Device* device) { return device->cycles(); }
EXPORT int unembed_device_interrupt(const Device* device) { return device->interrupt(); }
