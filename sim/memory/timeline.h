// What an AXI port did over time: its clocks, classified, in a bounded number of bins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unembed {

// What a read port does in a clock; the names are in recording.py.
enum class PortState : uint8_t {
  kData,         // RVALID and RREADY
  kRefused,      // RVALID and not RREADY
  kWaiting,      // neither, but data is due or an address is offered
  kUnrequested,  // nothing is under way or offered
};
constexpr size_t kPortStates = 4;

// Clocks of a bin by what the read port did in them, which add up to its width, and counts beside
// these. The layout is shared with recording.py.
struct TimelineBin {
  std::array<uint64_t, kPortStates> states;
  uint64_t write_beats;
  uint64_t address_waiting;  // ARVALID and not ARREADY
  // Between the first and the last accepted address: ARVALID low although the reader has room for
  // its largest burst; and those of them that brought no data.
  uint64_t unoffered;
  uint64_t unoffered_without_data;

  TimelineBin& operator+=(const TimelineBin& other);
};

// What a reader has room for.
struct ReaderRoom {
  uint64_t beats;             // requested or held, at most
  uint64_t burst_beats;       // of its largest burst
  uint32_t turnaround_clocks;  // that the room of a received beat is not free yet
};

// A port in one clock, before its edge.
struct PortClock {
  bool arvalid, arready, rvalid, rready, write_beat;
  uint32_t burst_beats;  // of the address that is offered
};

// Bins begin with the first clock in which an address is offered. Their width is one clock at
// first and doubles whenever all are full. The first and the last clocks from there on are also
// kept one by one.
class Timeline {
 public:
  static constexpr size_t kBins = 1024;
  static constexpr size_t kEdgeClocks = 2048;  // a power of two
  static constexpr uint32_t kLongestTurnaround = 63;

  // `outstanding_beats`: requested before and not received.
  Timeline(const ReaderRoom& room, uint64_t outstanding_beats)
      : room_(room),
        turnaround_mask_((uint64_t{1} << room.turnaround_clocks) - 1),
        outstanding_(outstanding_beats) {}

  void clock(const PortClock& now);
  // Everything under way is forgotten.
  void reset() { outstanding_ = 0; }

  uint64_t clocks() const { return clocks_; }
  // Clocks before the first with an address offered, and before the last with data.
  bool offered() const { return !bins_.empty(); }
  uint64_t first_offer() const { return first_offer_; }
  bool received() const { return received_; }
  uint64_t last_data() const { return last_data_; }
  uint64_t bin_clocks() const { return bin_clocks_; }
  const std::vector<TimelineBin>& bins() const { return bins_; }
  // Clocks in the bins, and the state of one of the first `kEdgeClocks` or of the last.
  uint64_t binned_clocks() const { return offered() ? clocks_ - first_offer_ : 0; }
  PortState first_state(uint64_t clock) const { return first_[clock]; }
  PortState last_state(uint64_t clock) const { return last_[clock % kEdgeClocks]; }

 private:
  // Unoffered clocks since the last accepted address, in a bin; they count once another follows.
  struct Pending {
    size_t bin;
    uint64_t clocks, without_data;
  };

  void next_bin();
  PortState state(const PortClock& now) const;
  void add_unoffered(bool data);
  void commit_unoffered();

  const ReaderRoom room_;
  const uint64_t turnaround_mask_;
  uint64_t outstanding_;
  uint64_t received_history_ = 0;  // a bit per clock, the last one lowest

  uint64_t clocks_ = 0;
  uint64_t first_offer_ = 0, last_data_ = 0;
  bool received_ = false;
  bool accepted_ = false;  // an address, ever

  std::vector<TimelineBin> bins_;
  uint64_t bin_clocks_ = 1;
  uint64_t left_in_bin_ = 0;
  std::vector<Pending> pending_;
  std::array<PortState, kEdgeClocks> first_, last_;
};

}  // namespace unembed
