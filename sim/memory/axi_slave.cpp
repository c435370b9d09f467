#include "axi_slave.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

namespace unembed {

namespace {

constexpr uint8_t kOkay = 0, kSlaveError = 2, kDecodeError = 3;
constexpr uint32_t kBurstIncr = 1;
constexpr uint64_t kBoundaryBytes = 4096;
// Write data may run ahead of its addresses by this many beats.
constexpr size_t kMaxDataAhead = 1024;
constexpr uint8_t kGarbage = 0xa5;

uint32_t beats_of(uint32_t control) { return (control & 0xff) + 1; }
uint32_t size_of(uint32_t control) { return control >> 8 & 7; }
uint32_t burst_of(uint32_t control) { return control >> 11 & 3; }
uint32_t id_of(uint32_t control) { return control >> 13; }

uint64_t low_bits(uint32_t count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

// Whether the item with number `count` is the next one of an ascending list.
bool is_next(const std::vector<uint64_t>& indices, size_t& next, uint64_t count) {
  if (next == indices.size() || indices[next] != count) return false;
  ++next;
  return true;
}

}  // namespace

AxiSlave::AxiSlave(Storage& storage, uint32_t bus_bytes, std::unique_ptr<Timing> timing,
                   WriteOrder write_order, bool idle_garbage)
    : storage_(storage),
      bus_bytes_(bus_bytes),
      bus_size_(std::countr_zero(bus_bytes)),
      timing_(std::move(timing)),
      write_order_(write_order),
      idle_garbage_(idle_garbage) {}

void AxiSlave::clock(const MasterPins& master) {
  reset_cycles_ = 0;
  ++statistics_.cycles;
  if (timeline_) [[unlikely]] record_clock(master);
  check_address("AR", ar_offer_, master.arvalid, pins_.arready, master.araddr, master.ar_control);
  check_address("AW", aw_offer_, master.awvalid, pins_.awready, master.awaddr, master.aw_control);
  check_data(master);
  timing_->advance(cycle_);
  take_reads(master);
  take_writes(master);
  ++cycle_;
  offer_read(cycle_);
  offer_write(cycle_);
}

void AxiSlave::reset(const MasterPins& master) {
  // A synchronous reset needs one clock edge before the master's outputs are defined.
  if (++reset_cycles_ > 1 && (master.arvalid || master.awvalid || master.wvalid)) {
    violation("VALID is high during reset", 0);
  }
  ++cycle_;
  pins_ = {};
  timing_->reset();
  if (timeline_) timeline_->reset();
  reads_.clear();
  read_beat_ = 0;
  write_addresses_.clear();
  write_data_.clear();
  responses_.clear();
  write_beat_ = 0;
  write_response_ = kOkay;
  data_bursts_ahead_ = 0;
  ar_offer_.waiting = aw_offer_.waiting = w_waiting_ = false;
}

void AxiSlave::set_faults(Faults faults) {
  faults_ = std::move(faults);
  next_read_fault_ = next_write_fault_ = 0;
  read_beats_offered_ = responses_offered_ = 0;
}

void AxiSlave::clear_violations() {
  violation_count_ = 0;
  violations_.clear();
}

void AxiSlave::record(const ReaderRoom& room) {
  uint64_t outstanding = 0;
  for (const Burst& burst : reads_) outstanding += burst.beats;
  timeline_ = std::make_unique<Timeline>(room, outstanding - read_beat_);
}

void AxiSlave::record_clock(const MasterPins& master) {
  timeline_->clock({.arvalid = master.arvalid,
                    .arready = pins_.arready,
                    .rvalid = pins_.rvalid,
                    .rready = master.rready,
                    .write_beat = master.wvalid && pins_.wready,
                    .burst_beats = beats_of(master.ar_control)});
}

void AxiSlave::violation(const char* text, uint64_t address) {
  ++violation_count_;
  if (violations_.size() == kMaxViolations) return;
  char line[160];
  std::snprintf(line, sizeof line, "cycle %" PRIu64 ": %s (address 0x%" PRIx64 ")",
                statistics_.cycles, text, address);
  violations_.emplace_back(line);
}

void AxiSlave::check_address(const char* channel, Offer& offer, bool valid, bool ready,
                             uint64_t address, uint32_t control) {
  if (!valid && !offer.waiting) return;
  if (offer.waiting) {
    char text[80];
    if (!valid) {
      std::snprintf(text, sizeof text, "%sVALID was withdrawn before %sREADY", channel, channel);
      violation(text, offer.address);
    } else if (address != offer.address || control != offer.control) {
      std::snprintf(text, sizeof text, "%s changed while waiting for %sREADY", channel, channel);
      violation(text, offer.address);
    }
  }
  offer.waiting = valid && !ready;
  offer.address = address;
  offer.control = control;
  if (valid && ready) check_burst(channel, address, control);
}

void AxiSlave::check_burst(const char* channel, uint64_t address, uint32_t control) {
  char text[80];
  if (size_of(control) != bus_size_) {
    std::snprintf(text, sizeof text, "%sSIZE is %u, the bus needs %u", channel, size_of(control),
                  bus_size_);
    violation(text, address);
  }
  if (burst_of(control) != kBurstIncr) {
    std::snprintf(text, sizeof text, "%sBURST is %u, not INCR", channel, burst_of(control));
    violation(text, address);
  }
  if (id_of(control) != 0) {
    std::snprintf(text, sizeof text, "%sID is not 0", channel);
    violation(text, address);
  }
  if (address & (bus_bytes_ - 1)) {
    std::snprintf(text, sizeof text, "%sADDR is not aligned to the bus", channel);
    violation(text, address);
  }
  const uint64_t bytes = uint64_t{beats_of(control)} * bus_bytes_;
  if ((address & (kBoundaryBytes - 1)) + bytes > kBoundaryBytes) {
    std::snprintf(text, sizeof text, "%s burst of %u beats crosses a 4 KiB boundary", channel,
                  beats_of(control));
    violation(text, address);
  }
}

void AxiSlave::check_data(const MasterPins& master) {
  if (w_waiting_) {
    if (!master.wvalid) {
      violation("WVALID was withdrawn before WREADY", 0);
    } else if (master.wlast != w_offer_.last || master.wstrb != w_offer_.strobe ||
               std::memcmp(master.wdata, w_offer_.data.data(), bus_bytes_) != 0) {
      violation("W changed while waiting for WREADY", 0);
    }
  }
  w_waiting_ = master.wvalid && !pins_.wready;
  if (w_waiting_) {
    w_offer_.last = master.wlast;
    w_offer_.strobe = master.wstrb;
    std::memcpy(w_offer_.data.data(), master.wdata, bus_bytes_);
  }
}

void AxiSlave::take_reads(const MasterPins& master) {
  if (pins_.rvalid) {
    if (master.rready) {
      pins_.rvalid = false;
      ++statistics_.read_beats;
      statistics_.read_bytes += bus_bytes_;
      if (++read_beat_ == reads_.front().beats) {
        read_beat_ = 0;
        reads_.pop_front();
        timing_->retire(Direction::kRead, cycle_);
      }
    } else {
      ++statistics_.refused_read_cycles;
    }
  }
  if (master.arvalid && pins_.arready) {
    const uint32_t beats = beats_of(master.ar_control);
    const uint64_t address = master.araddr & ~uint64_t{bus_bytes_ - 1};
    reads_.push_back({address, beats});
    timing_->accept(Direction::kRead, cycle_, address, uint64_t{beats} * bus_bytes_);
    ++statistics_.read_bursts;
    statistics_.max_outstanding_reads =
        std::max<uint64_t>(statistics_.max_outstanding_reads, reads_.size());
  }
}

void AxiSlave::take_writes(const MasterPins& master) {
  if (pins_.bvalid) {
    if (master.bready) {
      pins_.bvalid = false;
      responses_.pop_front();
      ++statistics_.write_responses;
      timing_->retire(Direction::kWrite, cycle_);
    } else {
      ++statistics_.refused_response_cycles;
    }
  }
  if (master.awvalid && pins_.awready) {
    write_addresses_.push_back(
        {master.awaddr & ~uint64_t{bus_bytes_ - 1}, beats_of(master.aw_control)});
    ++statistics_.write_bursts;
  }
  if (master.wvalid && pins_.wready) {
    WriteBeat& beat = write_data_.emplace_back();
    std::memcpy(beat.data.data(), master.wdata, bus_bytes_);
    beat.strobe = master.wstrb & low_bits(bus_bytes_);
    beat.last = master.wlast;
    data_bursts_ahead_ += beat.last;
    ++statistics_.write_beats;
  }
  while (!write_data_.empty() && !write_addresses_.empty()) apply_write_beat();
}

void AxiSlave::apply_write_beat() {
  const WriteBeat& beat = write_data_.front();
  const Burst burst = write_addresses_.front();
  const uint64_t address = burst.address + uint64_t{write_beat_} * bus_bytes_;
  if (storage_.contains(address, bus_bytes_)) {
    uint8_t* target = storage_.writable_at(address);
    for (uint32_t byte = 0; byte < bus_bytes_; ++byte) {
      if (beat.strobe >> byte & 1) target[byte] = beat.data[byte];
    }
    statistics_.write_bytes += std::popcount(beat.strobe);
  } else {
    write_response_ = kDecodeError;
  }
  const bool last = ++write_beat_ == burst.beats;
  if (beat.last != last) {
    violation(last ? "WLAST is missing on the last beat" : "WLAST is high before the last beat",
              address);
  }
  data_bursts_ahead_ -= beat.last;
  write_data_.pop_front();
  if (!last) return;
  responses_.push_back(write_response_);
  write_beat_ = 0;
  write_response_ = kOkay;
  write_addresses_.pop_front();
  timing_->accept(Direction::kWrite, cycle_, burst.address, uint64_t{burst.beats} * bus_bytes_);
}

void AxiSlave::load_beat() {
  const Burst& burst = reads_.front();
  const uint64_t address = burst.address + uint64_t{read_beat_} * bus_bytes_;
  pins_.rvalid = true;
  pins_.rlast = read_beat_ + 1 == burst.beats;
  if (storage_.contains(address, bus_bytes_)) [[likely]] {
    std::memcpy(rdata_, storage_.at(address), bus_bytes_);
    pins_.rresp = kOkay;
  } else {
    std::memset(rdata_, 0, bus_bytes_);
    pins_.rresp = kDecodeError;
  }
  if (is_next(faults_.read_beats, next_read_fault_, read_beats_offered_++)) {
    pins_.rresp = faults_.read_response;
  }
}

void AxiSlave::offer_read(uint64_t cycle) {
  const bool stalled = stalls_[kR].next() || faults_.dead[kR];
  if (!pins_.rvalid) {
    if (!reads_.empty() && !stalled && timing_->data_ready(read_beat_, cycle)) {
      load_beat();
    } else if (idle_garbage_) {
      pins_.rlast = true;
      pins_.rresp = kSlaveError;
      std::memset(rdata_, kGarbage, bus_bytes_);
    }
  }
  pins_.arready = !stalls_[kAr].next() && !faults_.dead[kAr] &&
                  timing_->accepts(Direction::kRead, cycle);
}

void AxiSlave::offer_write(uint64_t cycle) {
  const bool stalled = stalls_[kB].next() || faults_.dead[kB];
  if (!pins_.bvalid) {
    if (!responses_.empty() && !stalled && timing_->response_ready(cycle)) {
      pins_.bvalid = true;
      pins_.bresp = responses_.front();
      if (is_next(faults_.write_responses, next_write_fault_, responses_offered_++)) {
        pins_.bresp = faults_.write_response;
      }
    } else if (idle_garbage_) {
      pins_.bresp = kSlaveError;
    }
  }
  pins_.awready = !stalls_[kAw].next() && !faults_.dead[kAw] &&
                  timing_->accepts(Direction::kWrite, cycle) &&
                  (write_order_ != WriteOrder::kDataFirst ||
                   data_bursts_ahead_ > write_addresses_.size());
  pins_.wready = !stalls_[kW].next() && !faults_.dead[kW] &&
                 write_data_.size() < kMaxDataAhead &&
                 (write_order_ != WriteOrder::kAddressFirst || !write_addresses_.empty());
}

}  // namespace unembed
