#include "timeline.h"

#include <algorithm>
#include <bit>

#include "axi_slave.h"

namespace unembed {

TimelineBin& TimelineBin::operator+=(const TimelineBin& other) {
  for (size_t state = 0; state < kPortStates; ++state) states[state] += other.states[state];
  write_beats += other.write_beats;
  address_waiting += other.address_waiting;
  unoffered += other.unoffered;
  unoffered_without_data += other.unoffered_without_data;
  return *this;
}

void Timeline::clock(const PortClock& now) {
  const uint64_t number = clocks_++;
  if (bins_.empty()) {
    if (!now.arvalid) return;
    first_offer_ = number;
  }
  if (left_in_bin_ == 0) next_bin();
  --left_in_bin_;
  TimelineBin& bin = bins_.back();
  const PortState what = state(now);
  ++bin.states[static_cast<size_t>(what)];
  const uint64_t position = number - first_offer_;
  if (position < kEdgeClocks) first_[position] = what;
  last_[position % kEdgeClocks] = what;
  const bool data = what == PortState::kData;
  if (data) {
    received_ = true;
    last_data_ = number;
  }
  bin.write_beats += now.write_beat;
  if (now.arvalid) {
    bin.address_waiting += !now.arready;
  } else if (accepted_) {
    const uint64_t held = outstanding_ + std::popcount(received_history_ & turnaround_mask_);
    if (held + room_.burst_beats <= room_.beats) add_unoffered(data);
  }
  received_history_ = received_history_ << 1 | uint64_t{data};
  outstanding_ -= data && outstanding_ != 0;
  if (now.arvalid && now.arready) {
    accepted_ = true;
    outstanding_ += now.burst_beats;
    commit_unoffered();
  }
}

PortState Timeline::state(const PortClock& now) const {
  if (now.rvalid) return now.rready ? PortState::kData : PortState::kRefused;
  return outstanding_ != 0 || now.arvalid ? PortState::kWaiting : PortState::kUnrequested;
}

void Timeline::next_bin() {
  if (bins_.size() == kBins) {
    for (size_t index = 0; index < kBins / 2; ++index) {
      TimelineBin bin = bins_[2 * index];
      bin += bins_[2 * index + 1];
      bins_[index] = bin;
    }
    bins_.resize(kBins / 2);
    bin_clocks_ *= 2;
    for (Pending& pending : pending_) pending.bin /= 2;
  }
  if (bins_.empty()) bins_.reserve(kBins);
  bins_.push_back({});
  left_in_bin_ = bin_clocks_;
}

void Timeline::add_unoffered(bool data) {
  const size_t bin = bins_.size() - 1;
  if (pending_.empty() || pending_.back().bin != bin) pending_.push_back({bin, 0, 0});
  ++pending_.back().clocks;
  pending_.back().without_data += !data;
}

void Timeline::commit_unoffered() {
  for (const Pending& pending : pending_) {
    bins_[pending.bin].unoffered += pending.clocks;
    bins_[pending.bin].unoffered_without_data += pending.without_data;
  }
  pending_.clear();
}

}  // namespace unembed

// The C interface of recording.py.

using unembed::AxiSlave;
using unembed::PortState;
using unembed::ReaderRoom;
using unembed::Timeline;
using unembed::TimelineBin;

#pragma GCC visibility push(default)
extern "C" {

// The layout is shared with recording.py; `first_offer` and `last_data` are -1 if there is none.
struct UnembedTimeline {
  uint64_t clocks;
  int64_t first_offer, last_data;
  uint64_t bin_clocks, bins;
};

void unembed_port_record(AxiSlave* port, uint64_t room_beats, uint64_t burst_beats,
                         uint32_t turnaround_clocks) {
  port->record(ReaderRoom{room_beats, burst_beats, turnaround_clocks});
}

void unembed_port_stop_recording(AxiSlave* port) { port->stop_recording(); }

// Copies what was recorded: at most `kBins` bins, and of the first and of the last clocks at most
// `kEdgeClocks` each; 0 if nothing is recorded.
int unembed_port_timeline(const AxiSlave* port, UnembedTimeline* summary, TimelineBin* bins,
                          PortState* first, PortState* last) {
  const Timeline* timeline = port->timeline();
  if (timeline == nullptr) return 0;
  *summary = {
      timeline->clocks(),
      timeline->offered() ? static_cast<int64_t>(timeline->first_offer()) : -1,
      timeline->received() ? static_cast<int64_t>(timeline->last_data()) : -1,
      timeline->bin_clocks(),
      timeline->bins().size(),
  };
  std::copy(timeline->bins().begin(), timeline->bins().end(), bins);
  const uint64_t end = timeline->binned_clocks();
  const uint64_t edge = std::min<uint64_t>(end, Timeline::kEdgeClocks);
  for (uint64_t clock = 0; clock < edge; ++clock) {
    first[clock] = timeline->first_state(clock);
    last[clock] = timeline->last_state(end - edge + clock);
  }
  return 1;
}

}  // extern "C"
#pragma GCC visibility pop
