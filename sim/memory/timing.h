// When the DRAM accepts bursts and returns their data.
#pragma once

#include <cstdint>

#include "ring.h"

namespace unembed {

enum class Direction { kRead, kWrite };

// The timing of one memory port. The AXI slave keeps the protocol (one beat a clock, order,
// stalls, faults); a timing only says from which clock cycle on something may happen. Bursts of
// one direction complete in the order in which they were accepted.
//
// A model of real DRAM (dram_timing.h) splits a burst into accesses in `accept` and schedules them
// on its banks in `advance`.
class Timing {
 public:
  virtual ~Timing() = default;

  // Forgets all bursts; time goes on. Called in place of `advance` while the port is in reset.
  virtual void reset() = 0;

  // Called once at the start of every clock cycle out of reset, with ascending numbers.
  virtual void advance(uint64_t cycle) = 0;

  // May a burst be accepted in `cycle` (the coming one)?
  virtual bool accepts(Direction direction, uint64_t cycle) const = 0;

  // A burst is complete at the port: its read address, or its write address and all its data.
  virtual void accept(Direction direction, uint64_t cycle, uint64_t address, uint64_t bytes) = 0;

  // May the data of beat `beat` of the oldest read be offered in `cycle` (the coming one)?
  virtual bool data_ready(uint32_t beat, uint64_t cycle) = 0;

  // May the oldest write be answered in `cycle` (the coming one)?
  virtual bool response_ready(uint64_t cycle) = 0;

  // The last beat or the response of the oldest burst was taken in `cycle`.
  virtual void retire(Direction direction, uint64_t cycle) = 0;
};

// A fixed latency from the handshake of the address (for writes: of address and last beat) to the
// first beat (to the response), and a largest number of bursts under way.
class IdealTiming final : public Timing {
 public:
  struct Limits {
    uint32_t latency_cycles;
    uint32_t max_outstanding;
  };

  IdealTiming(Limits read, Limits write) : reads_{read, {}}, writes_{write, {}} {}

  void reset() override {
    reads_.ready_cycles.clear();
    writes_.ready_cycles.clear();
  }
  void advance(uint64_t) override {}
  bool accepts(Direction direction, uint64_t) const override {
    const Queue& queue = direction == Direction::kRead ? reads_ : writes_;
    return queue.ready_cycles.size() < queue.limits.max_outstanding;
  }
  void accept(Direction direction, uint64_t cycle, uint64_t, uint64_t) override {
    Queue& queue = of(direction);
    queue.ready_cycles.push(cycle + queue.limits.latency_cycles);
  }
  bool data_ready(uint32_t, uint64_t cycle) override {
    return cycle >= reads_.ready_cycles.front();
  }
  bool response_ready(uint64_t cycle) override { return cycle >= writes_.ready_cycles.front(); }
  void retire(Direction direction, uint64_t) override { of(direction).ready_cycles.pop(); }

 private:
  struct Queue {
    Limits limits;
    Ring<uint64_t> ready_cycles;
  };

  Queue& of(Direction direction) { return direction == Direction::kRead ? reads_ : writes_; }

  Queue reads_;
  Queue writes_;
};

}  // namespace unembed
