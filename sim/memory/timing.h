// When the DRAM accepts bursts and returns their data.
#pragma once

#include <cstdint>
#include <deque>

namespace unembed {

enum class Direction { kRead, kWrite };

// The timing of one memory port. The AXI slave keeps the protocol (one beat a clock, order,
// stalls, faults); a timing only says from which clock cycle on something may happen. Bursts of
// one direction complete in the order in which they were accepted.
//
// A model of real DRAM splits a burst into accesses in `accept`, schedules them on its banks and
// answers `data_cycle` from the schedule; one that decides clock by clock does so in `advance`.
class Timing {
 public:
  static constexpr uint64_t kUnknown = ~uint64_t{0};

  virtual ~Timing() = default;

  // Forgets all bursts.
  virtual void reset() = 0;

  // Called once at the start of every clock cycle, with consecutive numbers.
  virtual void advance(uint64_t cycle) = 0;

  // May a burst be accepted in `cycle` (the coming one)?
  virtual bool accepts(Direction direction, uint64_t cycle) const = 0;

  // A burst is complete at the port: its read address, or its write address and all its data.
  virtual void accept(Direction direction, uint64_t cycle, uint64_t address, uint64_t bytes) = 0;

  // First cycle in which the data of beat `beat` of the oldest read may be offered, `kUnknown`
  // if that is not decided yet (asked again in the next cycle).
  virtual uint64_t data_cycle(uint32_t beat) const = 0;

  // First cycle in which the oldest write may be answered, or `kUnknown`.
  virtual uint64_t response_cycle() const = 0;

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
    queue.ready_cycles.push_back(cycle + queue.limits.latency_cycles);
  }
  uint64_t data_cycle(uint32_t) const override { return reads_.ready_cycles.front(); }
  uint64_t response_cycle() const override { return writes_.ready_cycles.front(); }
  void retire(Direction direction, uint64_t) override { of(direction).ready_cycles.pop_front(); }

 private:
  struct Queue {
    Limits limits;
    std::deque<uint64_t> ready_cycles;
  };

  Queue& of(Direction direction) { return direction == Direction::kRead ? reads_ : writes_; }

  Queue reads_;
  Queue writes_;
};

}  // namespace unembed
