// A master that requests as fast as a port takes it, to measure a memory without an accelerator.
#pragma once

#include <cstdint>
#include <vector>

#include "axi_slave.h"
#include "ring.h"

namespace unembed {

// What the masters do; traffic.py documents it. The layout is shared with its ctypes structure.
struct TrafficOptions {
  uint64_t base;          // of the first port's addresses
  uint64_t region_bytes;  // addresses of a port wrap around behind them; a multiple of 4096
  uint64_t port_bytes;    // from the base of a port to that of the next
  uint64_t burst_beats;
  uint64_t outstanding;  // read bursts; 0: unlimited
  uint64_t random;
  uint64_t streams, stream_bytes;
  uint64_t write_every, write_offset;
  uint64_t seed;
  uint64_t skipped_cycles;  // pass before all others, at once
  uint64_t warm_up_cycles, cycles;
};

// Of one port. The layout is shared with the ctypes structure of traffic.py.
struct TrafficTotals {
  uint64_t read_bytes, write_bytes;
  uint64_t read_bursts;
  uint64_t latency_cycles;  // of all read bursts together
};

class TrafficMaster {
 public:
  // `number` is that of the port.
  TrafficMaster(AxiSlave& slave, const TrafficOptions& options, uint64_t number);

  // One clock cycle.
  void clock();
  // The totals restart from zero.
  void measure() { totals_ = {}; }
  const TrafficTotals& totals() const { return totals_; }

 private:
  uint64_t next_read_address();
  uint64_t next_write_address();
  void begin_burst();

  AxiSlave& slave_;
  const TrafficOptions options_;
  const uint64_t base_, bus_bytes_, burst_bytes_;
  const uint32_t control_;  // AxLEN, AxSIZE, AxBURST

  uint64_t cycle_ = 0;
  uint64_t bursts_ = 0, write_bursts_ = 0;  // begun
  uint64_t random_state_;
  std::vector<uint64_t> streams_;  // offset of the next burst of each
  size_t stream_ = 0;

  // The burst that is being requested.
  bool write_ = false, address_taken_ = true;
  uint64_t address_ = 0;
  uint64_t data_left_ = 0;  // beats to write

  Ring<uint64_t> requests_;  // cycles of the address handshakes of the reads under way
  TrafficTotals totals_{};
};

}  // namespace unembed
