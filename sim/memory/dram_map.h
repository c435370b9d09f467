// Where an address lies: device, channel, bank and row.
#pragma once

#include <cstdint>

#include "dram_options.h"

namespace unembed {

struct DramLocation {
  uint32_t channel;  // among all channels behind the port
  uint32_t group;
  uint32_t bank;  // among all banks of the channel; those of a group are consecutive
  uint32_t row;
};

// Addresses beyond the capacity wrap around. All sizes are powers of two.
class DramMap {
 public:
  enum Field { kRow, kBank, kGroup, kColumn, kFields };

  // `devices` is the number of devices behind the port.
  DramMap(const DramOptions& options, uint32_t devices);

  DramLocation locate(uint64_t address) const {
    const uint32_t device = address >> interleave_bits_ & device_mask_;
    // The address within the device.
    address = (address >> (interleave_bits_ + device_bits_) << interleave_bits_) |
              (address & interleave_mask_);
    uint64_t access = address >> access_bits_;
    const uint32_t channel = access & channel_mask_;
    access >>= channel_bits_;
    uint32_t fields[kFields];
    for (const Part& part : parts_) {
      fields[part.field] = access & part.mask;
      access >>= part.bits;
    }
    return {device << channel_bits_ | channel, fields[kGroup],
            fields[kGroup] << bank_bits_ | fields[kBank], fields[kRow]};
  }

 private:
  struct Part {
    Field field;
    uint32_t bits;
    uint64_t mask;
  };

  uint32_t access_bits_, interleave_bits_, device_bits_, channel_bits_, bank_bits_;
  uint64_t device_mask_, interleave_mask_, channel_mask_;
  Part parts_[kFields];
};

}  // namespace unembed
