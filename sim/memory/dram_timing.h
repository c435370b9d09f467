// The timing of an AXI port with DRAM behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dram_channel.h"
#include "dram_map.h"
#include "dram_options.h"
#include "ring.h"
#include "timing.h"

namespace unembed {

// All devices of a memory. Ports that share a device see the state the others leave it in.
class DramSystem {
 public:
  explicit DramSystem(const DramOptions& options);

  const DramOptions& options() const { return options_; }
  // Devices behind each port, and ports behind each device: one of the two numbers is 1.
  uint32_t devices_of_port() const { return devices_of_port_; }
  uint32_t ports_of_device() const { return ports_of_device_; }
  // Channel `index` of those behind a port.
  DramChannel& channel(uint32_t port, uint32_t index);

 private:
  const DramOptions options_;
  const uint32_t devices_of_port_, ports_of_device_;
  std::vector<DramChannel> channels_;
};

// A burst is split into accesses of the DRAM, which the controllers of its channels schedule. The
// clock of the ports and that of the DRAM have an exact rational relation: clock cycle `c` of the
// port sees what the DRAM did up to its clock floor(c * numerator / denominator).
//
// Data is offered from the clock on at which its last access is complete, so it must lie in a
// later clock cycle than its column command: cl + access_clocks + latency is at least one clock
// cycle of the port.
class DramTiming final : public Timing, private DramClient {
 public:
  struct Limits {
    uint32_t reads, writes;  // bursts under way
  };

  DramTiming(std::shared_ptr<DramSystem> system, uint32_t port, uint32_t bus_bytes, Limits limits);

  void reset() override;
  void advance(uint64_t cycle) override;
  bool accepts(Direction direction, uint64_t cycle) const override;
  void accept(Direction direction, uint64_t cycle, uint64_t address, uint64_t bytes) override;
  bool data_ready(uint32_t beat, uint64_t cycle) override;
  bool response_ready(uint64_t cycle) override;
  void retire(Direction direction, uint64_t cycle) override;

 private:
  struct Route {
    DramChannel* channel;
    uint32_t reads;  // whose column command has not been issued
  };
  struct ReadBurst {
    uint64_t first, end;  // numbers of its accesses
    uint32_t offset;      // of its first byte in the first access
  };
  struct WriteBurst {
    uint32_t missing;  // accesses that no controller has taken yet
    uint64_t clock;    // when the last one was
  };

  void read_done(uint32_t route, uint64_t number, uint64_t clock) override;
  void write_taken(uint32_t route, uint64_t number, uint64_t clock) override;
  void set_cycle(uint64_t cycle);

  const std::shared_ptr<DramSystem> system_;
  const DramMap map_;
  const uint32_t number_;  // of this port among those of its devices
  const uint32_t bus_bytes_;
  const uint32_t access_bits_;
  const uint32_t queue_;
  const uint32_t latency_;
  const Limits limits_;
  std::vector<Route> routes_;  // to the channels behind this port
  uint32_t full_routes_ = 0;

  Ring<ReadBurst> reads_;
  Ring<uint64_t> done_;    // by access of these bursts: when its data is complete
  uint64_t returned_ = 0;  // the first access whose data cannot be offered yet
  Ring<WriteBurst> writes_;
  uint32_t missing_writes_ = 0;

  // Of the DRAM, at the current and at the coming clock cycle. Whole clocks per cycle, and the
  // rest, which adds up to a clock when it reaches the denominator.
  const uint64_t denominator_, whole_, part_;
  uint64_t cycle_ = 0, clock_ = 0, coming_clock_ = 0, coming_rest_ = 0;
};

}  // namespace unembed
