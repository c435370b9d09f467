#include "traffic.h"

#include <bit>
#include <cstddef>

namespace unembed {

namespace {

constexpr uint32_t kIncr = 1;
alignas(64) const uint8_t kWriteData[AxiSlave::kMaxBusBytes] = {};

uint32_t control_of(uint64_t beats, uint64_t bus_bytes) {
  return static_cast<uint32_t>((beats - 1) | std::countr_zero(bus_bytes) << 8 | kIncr << 11);
}

MasterPins idle_pins() {
  MasterPins pins{};
  pins.rready = pins.bready = true;
  pins.wdata = kWriteData;
  return pins;
}

}  // namespace

TrafficMaster::TrafficMaster(AxiSlave& slave, const TrafficOptions& options, uint64_t number)
    : slave_(slave),
      options_(options),
      base_(options.base + number * options.port_bytes),
      bus_bytes_(slave.bus_bytes()),
      burst_bytes_(options.burst_beats * bus_bytes_),
      control_(control_of(options.burst_beats, bus_bytes_)),
      random_state_(options.seed + number) {
  for (uint64_t stream = 0; stream < options.streams; ++stream) {
    streams_.push_back(stream * options.stream_bytes);
  }
}

uint64_t TrafficMaster::next_read_address() {
  uint64_t offset;
  if (options_.random) {
    // SplitMix64, as in stall.h.
    uint64_t value = random_state_ += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    value ^= value >> 31;
    offset = value % (options_.region_bytes / burst_bytes_) * burst_bytes_;
  } else {
    offset = streams_[stream_] % options_.region_bytes;
    streams_[stream_] += burst_bytes_;
    stream_ = stream_ + 1 == streams_.size() ? 0 : stream_ + 1;
  }
  return base_ + offset;
}

uint64_t TrafficMaster::next_write_address() {
  const uint64_t offset = options_.write_offset + write_bursts_++ * burst_bytes_;
  return base_ + offset % options_.region_bytes;
}

void TrafficMaster::begin_burst() {
  ++bursts_;
  write_ = options_.write_every != 0 && bursts_ % options_.write_every == 0;
  address_taken_ = false;
  data_left_ = write_ ? options_.burst_beats : 0;
  address_ = write_ ? next_write_address() : next_read_address();
}

void TrafficMaster::clock() {
  const SlavePins pins = slave_.pins();
  // A read that ends makes room for one that is requested in the same cycle.
  const bool ends = pins.rvalid && pins.rlast;
  if (address_taken_ && data_left_ == 0) begin_burst();
  const bool room =
      options_.outstanding == 0 || requests_.size() - (ends ? 1 : 0) < options_.outstanding;

  MasterPins master = idle_pins();
  master.arvalid = !address_taken_ && !write_ && room;
  master.awvalid = !address_taken_ && write_;
  master.wvalid = data_left_ > 0;
  master.wlast = data_left_ == 1;
  master.araddr = master.awaddr = address_;
  master.ar_control = master.aw_control = control_;
  master.wstrb = ~uint64_t{0};

  if (pins.rvalid) totals_.read_bytes += bus_bytes_;
  if (ends) {
    ++totals_.read_bursts;
    totals_.latency_cycles += cycle_ - requests_.front();
    requests_.pop();
  }
  if (master.arvalid && pins.arready) {
    requests_.push(cycle_);
    address_taken_ = true;
  }
  if (master.awvalid && pins.awready) address_taken_ = true;
  if (master.wvalid && pins.wready) {
    --data_left_;
    totals_.write_bytes += bus_bytes_;
  }
  slave_.clock(master);
  ++cycle_;
}

}  // namespace unembed

using unembed::AxiSlave;
using unembed::TrafficMaster;
using unembed::TrafficOptions;
using unembed::TrafficTotals;

#pragma GCC visibility push(default)
extern "C" {

// Runs a master at each of `count` ports; `totals` has as many items.
void unembed_traffic_run(const uint64_t* ports, size_t count, const TrafficOptions* options,
                         TrafficTotals* totals) {
  std::vector<TrafficMaster> masters;
  for (size_t number = 0; number < count; ++number) {
    AxiSlave& slave = *reinterpret_cast<AxiSlave*>(ports[number]);
    slave.skip(options->skipped_cycles);
    masters.emplace_back(slave, *options, number);
  }
  const auto run = [&](uint64_t cycles) {
    for (uint64_t cycle = 0; cycle < cycles; ++cycle) {
      for (TrafficMaster& master : masters) master.clock();
    }
  };
  run(options->warm_up_cycles);
  for (TrafficMaster& master : masters) master.measure();
  run(options->cycles);
  for (size_t number = 0; number < count; ++number) totals[number] = masters[number].totals();
}

// One read, and `idle` clock cycles afterwards. Returns the cycles from the handshake of its
// address to that of its last beat.
uint64_t unembed_traffic_read(AxiSlave* port, uint64_t address, uint32_t beats, uint64_t idle) {
  unembed::MasterPins master = unembed::idle_pins();
  master.araddr = address;
  master.ar_control = unembed::control_of(beats, port->bus_bytes());
  master.arvalid = true;
  while (!port->pins().arready) port->clock(master);
  port->clock(master);
  master.arvalid = false;
  uint64_t latency = 1;
  while (!(port->pins().rvalid && port->pins().rlast)) {
    port->clock(master);
    ++latency;
  }
  // One clock cycle more, in which the last beat is taken.
  for (uint64_t cycle = 0; cycle <= idle; ++cycle) port->clock(master);
  return latency;
}

void unembed_traffic_skip(AxiSlave* port, uint64_t cycles) { port->skip(cycles); }

}  // extern "C"
#pragma GCC visibility pop
