#include "dram_map.h"

#include <bit>

namespace unembed {

DramMap::DramMap(const DramOptions& options, uint32_t devices)
    : access_bits_(std::countr_zero(options.access_bytes)),
      interleave_bits_(std::countr_zero(options.interleave_bytes)),
      device_bits_(std::countr_zero(devices)),
      channel_bits_(std::countr_zero(options.channels)),
      bank_bits_(std::countr_zero(options.banks)),
      device_mask_(devices - 1),
      interleave_mask_(options.interleave_bytes - 1),
      channel_mask_(options.channels - 1) {
  const uint32_t sizes[kFields] = {options.rows, options.banks, options.bank_groups,
                                   options.columns};
  for (uint32_t place = 0; place < kFields; ++place) {
    const Field field = static_cast<Field>(options.order[place]);
    const uint32_t size = sizes[field];
    parts_[place] = {field, static_cast<uint32_t>(std::countr_zero(size)), size - uint64_t{1}};
  }
}

}  // namespace unembed
