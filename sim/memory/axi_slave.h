// The AXI4 slave in front of the simulated DRAM: protocol, checks of the master, stalls, faults.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "stall.h"
#include "storage.h"
#include "timeline.h"
#include "timing.h"

namespace unembed {

enum Channel { kAr, kR, kAw, kW, kB, kChannels };

// Which of the write address and the write data the slave takes first.
enum class WriteOrder : uint32_t { kAny, kAddressFirst, kDataFirst };

// Everything the master drives in one clock cycle.
struct MasterPins {
  bool arvalid, rready, awvalid, wvalid, wlast, bready;
  uint64_t araddr, awaddr;
  uint32_t ar_control, aw_control;  // len 7:0, size 10:8, burst 12:11, id 13 and up
  uint64_t wstrb;
  const uint8_t* wdata;
};

// Everything the slave drives in one clock cycle, except RDATA.
struct SlavePins {
  bool arready, rvalid, rlast, awready, wready, bvalid;
  uint8_t rresp, bresp;
};

// Totals since creation. The layout is shared with the ctypes structure in library.py.
struct Statistics {
  uint64_t cycles;
  uint64_t read_bursts, read_beats, read_bytes;
  uint64_t write_bursts, write_beats, write_bytes, write_responses;
  uint64_t refused_read_cycles;      // RVALID and not RREADY
  uint64_t refused_response_cycles;  // BVALID and not BREADY
  uint64_t max_outstanding_reads;    // bursts
};

// Injected errors; indices count from 0 at the moment the faults are set, in ascending order.
struct Faults {
  std::vector<uint64_t> read_beats;
  uint8_t read_response = 2;
  std::vector<uint64_t> write_responses;
  uint8_t write_response = 2;
  std::array<bool, kChannels> dead{};
};

class AxiSlave {
 public:
  static constexpr uint32_t kMaxBusBytes = 64;
  static constexpr size_t kMaxViolations = 100;  // recorded with text; all are counted

  AxiSlave(Storage& storage, uint32_t bus_bytes, std::unique_ptr<Timing> timing,
           WriteOrder write_order, bool idle_garbage);

  // One rising clock edge: takes what the master drove before it and decides what the slave
  // drives after it. All outputs of the slave are therefore registered.
  void clock(const MasterPins& master);
  // One rising clock edge with the reset active: everything under way is forgotten.
  void reset(const MasterPins& master);
  // Lets `cycles` clock cycles pass in which nobody looks at the port, all at once.
  void skip(uint64_t cycles) { cycle_ += cycles; }

  const SlavePins& pins() const { return pins_; }
  const uint8_t* rdata() const { return rdata_; }
  uint32_t bus_bytes() const { return bus_bytes_; }

  void set_stall(Channel channel, const StallOptions& options) {
    stalls_[channel] = Stall(options);
  }
  void set_faults(Faults faults);

  const Statistics& statistics() const { return statistics_; }
  uint64_t violation_count() const { return violation_count_; }
  const std::vector<std::string>& violations() const { return violations_; }
  void clear_violations();

  // Records what the port does from the next clock on, in place of what was recorded before.
  void record(const ReaderRoom& room);
  void stop_recording() { timeline_.reset(); }
  // Null if nothing is recorded.
  const Timeline* timeline() const { return timeline_.get(); }

 private:
  struct Burst {
    uint64_t address;
    uint32_t beats;
  };
  struct WriteBeat {
    std::array<uint8_t, kMaxBusBytes> data;
    uint64_t strobe;
    bool last;
  };
  // An offer of the master that was not taken, which must not change.
  struct Offer {
    bool waiting = false;
    uint64_t address;
    uint32_t control;
  };

  void violation(const char* text, uint64_t address);
  void check_address(const char* channel, Offer& offer, bool valid, bool ready, uint64_t address,
                     uint32_t control);
  void check_data(const MasterPins& master);
  void check_burst(const char* channel, uint64_t address, uint32_t control);

  void take_reads(const MasterPins& master);
  void take_writes(const MasterPins& master);
  void apply_write_beat();
  void record_clock(const MasterPins& master);
  void offer_read(uint64_t cycle);
  void offer_write(uint64_t cycle);
  void load_beat();

  Storage& storage_;
  const uint32_t bus_bytes_;
  const uint32_t bus_size_;  // AxSIZE of a full beat
  const std::unique_ptr<Timing> timing_;
  const WriteOrder write_order_;
  const bool idle_garbage_;

  SlavePins pins_{};
  alignas(64) uint8_t rdata_[kMaxBusBytes] = {};
  uint64_t cycle_ = 0;
  uint32_t reset_cycles_ = 0;

  std::deque<Burst> reads_;
  uint32_t read_beat_ = 0;  // beats of the oldest read taken by the master
  uint64_t read_beats_offered_ = 0;

  std::deque<Burst> write_addresses_;  // whose data is not complete
  std::deque<WriteBeat> write_data_;   // whose address is not known yet
  std::deque<uint8_t> responses_;      // of complete writes, not yet answered
  uint32_t write_beat_ = 0;            // beats of the oldest address written
  uint8_t write_response_ = 0;         // worst response of these
  uint64_t data_bursts_ahead_ = 0;     // complete data bursts in write_data_
  uint64_t responses_offered_ = 0;

  std::array<Stall, kChannels> stalls_;
  Faults faults_;
  size_t next_read_fault_ = 0;
  size_t next_write_fault_ = 0;

  Offer ar_offer_, aw_offer_;
  bool w_waiting_ = false;
  WriteBeat w_offer_{};

  Statistics statistics_{};
  uint64_t violation_count_ = 0;
  std::vector<std::string> violations_;
  std::unique_ptr<Timeline> timeline_;
};

}  // namespace unembed
