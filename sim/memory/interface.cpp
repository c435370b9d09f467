// The C interface of the memory library: DPI-C for axi_memory.sv, plain C for ctypes.
#include <cstring>
#include <exception>
#include <memory>

#include "axi_slave.h"
#include "dram_timing.h"
#include "storage.h"

using unembed::AxiSlave;
using unembed::Channel;
using unembed::Direction;
using unembed::DramOptions;
using unembed::DramSystem;
using unembed::DramTiming;
using unembed::Faults;
using unembed::IdealTiming;
using unembed::MasterPins;
using unembed::SlavePins;
using unembed::StallOptions;
using unembed::Statistics;
using unembed::Storage;
using unembed::Timing;
using unembed::WriteOrder;

#pragma GCC visibility push(default)
extern "C" {

// The layout is shared with the ctypes structure in library.py.
struct UnembedPortOptions {
  uint32_t bus_bytes;
  uint32_t latency_cycles;
  uint32_t max_outstanding_reads;
  uint32_t write_latency_cycles;
  uint32_t max_outstanding_writes;
  uint32_t write_order;
  uint32_t idle_garbage;
};

// The devices of a memory live as long as a port uses them.
struct UnembedDram {
  std::shared_ptr<DramSystem> system;
};

Storage* unembed_memory_create(uint64_t base, uint64_t bytes) { return new Storage(base, bytes); }

void unembed_memory_destroy(Storage* storage) { delete storage; }

int unembed_memory_contains(const Storage* storage, uint64_t address, uint64_t size) {
  return storage->contains(address, size);
}

void unembed_memory_read(Storage* storage, uint64_t address, uint8_t* data, uint64_t size) {
  storage->read(address, data, size);
}

void unembed_memory_write(Storage* storage, uint64_t address, const uint8_t* data, uint64_t size) {
  storage->write(address, data, size);
}

void unembed_memory_map(Storage* storage, uint64_t address, const uint8_t* data, uint64_t size) {
  storage->map(address, data, size);
}

uint64_t unembed_memory_owned_pages(const Storage* storage) { return storage->owned_pages(); }

UnembedDram* unembed_dram_create(const DramOptions* options) {
  return new UnembedDram{std::make_shared<DramSystem>(*options)};
}

void unembed_dram_destroy(UnembedDram* dram) { delete dram; }

// Port number `number` of the devices `dram`; without devices, the latencies are fixed.
AxiSlave* unembed_port_create(Storage* storage, const UnembedPortOptions* options,
                              const UnembedDram* dram, uint32_t number) {
  std::unique_ptr<Timing> timing;
  if (dram) {
    timing = std::make_unique<DramTiming>(
        dram->system, number, options->bus_bytes,
        DramTiming::Limits{options->max_outstanding_reads, options->max_outstanding_writes});
  } else {
    timing = std::make_unique<IdealTiming>(
        IdealTiming::Limits{options->latency_cycles, options->max_outstanding_reads},
        IdealTiming::Limits{options->write_latency_cycles, options->max_outstanding_writes});
  }
  return new AxiSlave(*storage, options->bus_bytes, std::move(timing),
                      static_cast<WriteOrder>(options->write_order), options->idle_garbage != 0);
}

void unembed_port_destroy(AxiSlave* port) { delete port; }

void unembed_port_set_stall(AxiSlave* port, uint32_t channel, double probability, uint32_t longest,
                            uint64_t seed) {
  port->set_stall(static_cast<Channel>(channel), StallOptions{probability, longest, seed});
}

void unembed_port_set_faults(AxiSlave* port, const uint64_t* read_beats, size_t read_count,
                             uint32_t read_response, const uint64_t* write_responses,
                             size_t write_count, uint32_t write_response, uint32_t dead_channels) {
  Faults faults;
  faults.read_beats.assign(read_beats, read_beats + read_count);
  faults.read_response = read_response;
  faults.write_responses.assign(write_responses, write_responses + write_count);
  faults.write_response = write_response;
  for (uint32_t channel = 0; channel < unembed::kChannels; ++channel) {
    faults.dead[channel] = dead_channels >> channel & 1;
  }
  port->set_faults(std::move(faults));
}

void unembed_port_statistics(const AxiSlave* port, Statistics* statistics) {
  *statistics = port->statistics();
}

uint64_t unembed_port_violation_count(const AxiSlave* port) { return port->violation_count(); }

// Text of a recorded violation, null past the last one.
const char* unembed_port_violation(const AxiSlave* port, size_t index) {
  const auto& violations = port->violations();
  return index < violations.size() ? violations[index].c_str() : nullptr;
}

void unembed_port_clear_violations(AxiSlave* port) { port->clear_violations(); }

// One rising clock edge of axi_memory.sv, which documents the bits. `port` 0 is an unconnected
// memory: all outputs stay low.
void unembed_axi_clock(uint64_t port, uint32_t valids, uint64_t araddr, uint32_t ar_control,
                       uint64_t awaddr, uint32_t aw_control, uint64_t wstrb, const uint32_t* wdata,
                       uint32_t* slave, uint32_t* rdata) {
  if (port == 0) {
    *slave = 0;
    return;
  }
  AxiSlave& axi = *reinterpret_cast<AxiSlave*>(port);
  const MasterPins master{
      .arvalid = (valids & 1) != 0,
      .rready = (valids & 2) != 0,
      .awvalid = (valids & 4) != 0,
      .wvalid = (valids & 8) != 0,
      .wlast = (valids & 16) != 0,
      .bready = (valids & 32) != 0,
      .araddr = araddr,
      .awaddr = awaddr,
      .ar_control = ar_control,
      .aw_control = aw_control,
      .wstrb = wstrb,
      .wdata = reinterpret_cast<const uint8_t*>(wdata),
  };
  if (valids & 64) {
    axi.reset(master);
  } else {
    axi.clock(master);
  }
  const SlavePins& pins = axi.pins();
  *slave = uint32_t{pins.arready} | uint32_t{pins.rvalid} << 1 | uint32_t{pins.rlast} << 2 |
           uint32_t{pins.rresp} << 3 | uint32_t{pins.awready} << 5 | uint32_t{pins.wready} << 6 |
           uint32_t{pins.bvalid} << 7 | uint32_t{pins.bresp} << 8;
  std::memcpy(rdata, axi.rdata(), axi.bus_bytes());
}

}  // extern "C"
#pragma GCC visibility pop
