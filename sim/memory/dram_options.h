// Organisation and timing of DRAM devices, as devices.py and model.py describe them.
#pragma once

#include <cstdint>

namespace unembed {

// All timings in clocks of the DRAM. The layout is shared with the ctypes structure in library.py.
struct DramOptions {
  uint64_t clocks_per_cycle_numerator;  // clocks of the DRAM per clock cycle of the ports,
  uint64_t clocks_per_cycle_denominator;  // in lowest terms
  uint32_t ports, devices;
  uint32_t channels;          // of a device
  uint32_t interleave_bytes;  // between the devices behind a port
  uint32_t access_bytes, access_clocks;
  uint32_t bank_groups, banks, rows, columns;  // banks of a group; columns are accesses
  uint32_t order[4];  // fields of an address from the lowest to the highest, see DramMap::Field
  uint32_t queue;     // reads of a port that a channel's controller looks ahead
  uint32_t refresh;   // 0: none
  uint32_t latency;   // of controller and interconnect
  uint32_t cl, cwl, trcd, trcd_write, trp, tras, trc, trrd_s, trrd_l, tccd_s, tccd_l, tfaw, trfc,
      trefi, trtp, twtr_s, twtr_l, twr;
};

}  // namespace unembed
