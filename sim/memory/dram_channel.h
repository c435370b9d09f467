// One DRAM channel with its controller: banks, rows, bus and refresh.
#pragma once

#include <cstdint>
#include <vector>

#include "dram_map.h"
#include "dram_options.h"
#include "ring.h"
#include "timing.h"

namespace unembed {

// Who wants to know what became of an access. `number` is that of the access.
class DramClient {
 public:
  virtual ~DramClient() = default;
  // The last of the data is on the pins of the DRAM at `clock`.
  virtual void read_done(uint32_t route, uint64_t number, uint64_t clock) = 0;
  // The controller has taken a write into its buffer.
  virtual void write_taken(uint32_t route, uint64_t number, uint64_t clock) = 0;
};

// The controller keeps rows open. Of the accesses it looks at, it carries out those first that can
// be carried out first, the oldest first among equals (FR-FCFS), with one restriction: within a
// bank only accesses to the open row may overtake. Writes are collected and issued in groups.
//
// Nothing happens clock by clock. An access takes a few steps, each of which looks at the banks
// that have accesses waiting; `run` does nothing until the time of the next step has come. Time
// is in clocks of the DRAM.
class DramChannel {
 public:
  static constexpr uint64_t kNever = ~uint64_t{0};
  static constexpr uint32_t kWriteBuffer = 32;  // accesses
  static constexpr uint32_t kWriteHigh = 26;    // start of a group,
  static constexpr uint32_t kWriteLow = 6;      // its end (0.8 and 0.2 of the buffer)
  // Without reads for as long, the controller writes what it has collected.
  static constexpr uint32_t kIdleClocks = 128;

  DramChannel(const DramOptions& options, uint32_t ports);

  // Port number `port` of this channel; `route` is what the client calls this channel.
  void connect(uint32_t port, DramClient* client, uint32_t route);

  // An access of a port. It reaches the controller at `clock` at the earliest, which must be after
  // the last `run`, one clock after the one before, and not before there is room for it.
  void push(uint32_t port, Direction direction, uint64_t clock, const DramLocation& location,
            uint64_t number);

  // Carries out what happens up to and including `now`.
  void run(uint64_t now) {
    if (now >= next_) [[unlikely]] steps(now);
  }

  // Forgets all accesses of a port, at `now`.
  void forget(uint32_t port, uint64_t now);

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kRead = static_cast<uint32_t>(Direction::kRead);
  static constexpr uint32_t kWrite = static_cast<uint32_t>(Direction::kWrite);

  struct Access {
    uint64_t clock;  // when it reaches the controller
    uint64_t number;
    uint32_t port, bank, row;
  };
  // An access the controller looks at: an item of the list of its bank, oldest first.
  struct Entry {
    Access access;
    uint32_t previous, next;
  };
  struct List {
    uint32_t first = kNone, last = kNone;
    uint32_t hits = 0;  // entries of the open row
  };
  struct Bank {
    List lists[2];  // by direction
    uint32_t group;
    bool open = false;
    uint32_t row = 0;
    uint32_t overtaken = 0;  // how often its oldest entry was, since the row was opened
    uint64_t column_ok[2] = {};  // by direction: tRCD has passed
    uint64_t precharge_ok = 0, activate_ok = 0;
  };
  struct Group {
    uint64_t column_ok[2] = {};
    uint64_t activate_ok = 0;
  };
  struct Port {
    DramClient* client = nullptr;
    uint32_t route = 0;
    uint32_t looked_at = 0;   // reads
    uint64_t last_read = 0;   // when the last one reached the controller
    Ring<Access> waiting;     // reads that have not reached it
    uint64_t accesses = 0;    // of both directions, not carried out
  };
  // The next command of a bank: a column access of `entry`, or the activation of its row.
  struct Step {
    uint64_t clock = kNever;
    uint32_t direction = 0;
    uint32_t bank = 0;
    uint32_t entry = kNone;
    bool column = false;
  };

  void steps(uint64_t now);
  void choose_direction();
  Step next_step() const;
  Step step_of(uint32_t direction, uint32_t bank) const;
  uint32_t entry_to_serve(const Bank& bank, const List& list) const;
  void refresh(uint64_t clock);
  void activate(const Step& step);
  void column(const Step& step);

  void enter(uint32_t direction, const Access& access);
  void admit_reads(Port& port, uint64_t clock);
  void admit_writes(uint64_t clock);
  void remove(uint32_t direction, uint32_t index);
  void count_hits(Bank& bank);

  const DramOptions options_;
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  std::vector<Port> ports_;

  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  Ring<Access> waiting_writes_;
  uint32_t buffered_writes_ = 0;
  uint64_t last_write_ = 0;  // when the last one reached the controller

  uint64_t pending_[2] = {};  // by direction: banks with entries, a bit each
  uint32_t direction_ = kRead;

  uint64_t column_ok_[2] = {};
  uint64_t last_column_ = 0;
  uint64_t activate_ok_ = 0;       // tRRD_S, and the end of a refresh
  uint64_t activations_[4] = {};   // when tFAW allows four more
  uint32_t next_activation_ = 0;
  uint64_t next_refresh_;
  uint64_t next_ = kNever;
};

}  // namespace unembed
