#include "dram_timing.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace unembed {

DramSystem::DramSystem(const DramOptions& options)
    : options_(options),
      devices_of_port_(std::max(1u, options.devices / options.ports)),
      ports_of_device_(std::max(1u, options.ports / options.devices)) {
  for (uint32_t index = 0; index < options.devices * options.channels; ++index) {
    channels_.emplace_back(options, ports_of_device_);
  }
}

DramChannel& DramSystem::channel(uint32_t port, uint32_t index) {
  const uint32_t device = port / ports_of_device_ * devices_of_port_;
  return channels_[device * options_.channels + index];
}

DramTiming::DramTiming(std::shared_ptr<DramSystem> system, uint32_t port, uint32_t bus_bytes,
                       Limits limits)
    : system_(std::move(system)),
      map_(system_->options(), system_->devices_of_port()),
      number_(port % system_->ports_of_device()),
      bus_bytes_(bus_bytes),
      access_bits_(std::countr_zero(system_->options().access_bytes)),
      queue_(system_->options().queue),
      latency_(system_->options().latency),
      limits_(limits),
      denominator_(system_->options().clocks_per_cycle_denominator),
      whole_(system_->options().clocks_per_cycle_numerator / denominator_),
      part_(system_->options().clocks_per_cycle_numerator % denominator_) {
  const uint32_t count = system_->devices_of_port() * system_->options().channels;
  for (uint32_t index = 0; index < count; ++index) {
    DramChannel& channel = system_->channel(port, index);
    channel.connect(number_, this, index);
    routes_.push_back({&channel, 0});
  }
  set_cycle(0);
}

void DramTiming::set_cycle(uint64_t cycle) {
  const auto clocks = [&](uint64_t count, uint64_t& rest) {
    const unsigned __int128 parts = static_cast<unsigned __int128>(count) * part_;
    rest = static_cast<uint64_t>(parts % denominator_);
    return count * whole_ + static_cast<uint64_t>(parts / denominator_);
  };
  cycle_ = cycle;
  clock_ = clocks(cycle, coming_rest_);
  coming_clock_ = clocks(cycle + 1, coming_rest_);
}

void DramTiming::reset() {
  for (Route& route : routes_) {
    route.channel->forget(number_, clock_);
    route.reads = 0;
  }
  full_routes_ = 0;
  reads_.clear();
  done_.clear();
  returned_ = done_.end();
  writes_.clear();
  missing_writes_ = 0;
}

void DramTiming::advance(uint64_t cycle) {
  if (cycle == cycle_ + 1) [[likely]] {
    cycle_ = cycle;
    clock_ = coming_clock_;
    coming_clock_ += whole_;
    coming_rest_ += part_;
    if (coming_rest_ >= denominator_) {
      coming_rest_ -= denominator_;
      ++coming_clock_;
    }
  } else {
    set_cycle(cycle);
  }
  for (const Route& route : routes_) route.channel->run(clock_);
}

bool DramTiming::accepts(Direction direction, uint64_t) const {
  if (direction == Direction::kRead) return full_routes_ == 0 && reads_.size() < limits_.reads;
  return missing_writes_ == 0 && writes_.size() < limits_.writes;
}

void DramTiming::accept(Direction direction, uint64_t, uint64_t address, uint64_t bytes) {
  const uint64_t first = address >> access_bits_;
  const uint64_t end = ((address + bytes - 1) >> access_bits_) + 1;
  if (direction == Direction::kRead) {
    reads_.push({done_.end(), done_.end() + end - first,
                 static_cast<uint32_t>(address - (first << access_bits_))});
  } else {
    writes_.push({static_cast<uint32_t>(end - first), 0});
    missing_writes_ += end - first;
  }
  for (uint64_t access = first; access < end; ++access) {
    const DramLocation location = map_.locate(access << access_bits_);
    Route& route = routes_[location.channel];
    uint64_t number = writes_.end() - 1;
    if (direction == Direction::kRead) {
      number = done_.end();
      done_.push(DramChannel::kNever);
      full_routes_ += ++route.reads == queue_;
    }
    route.channel->push(number_, direction, clock_ + 1, location, number);
  }
}

void DramTiming::read_done(uint32_t route, uint64_t number, uint64_t clock) {
  done_[number] = clock + latency_;
  full_routes_ -= routes_[route].reads-- == queue_;
}

void DramTiming::write_taken(uint32_t, uint64_t number, uint64_t clock) {
  WriteBurst& burst = writes_[number];
  --burst.missing;
  --missing_writes_;
  burst.clock = std::max(burst.clock, clock);
}

bool DramTiming::data_ready(uint32_t beat, uint64_t) {
  const ReadBurst& burst = reads_.front();
  const uint64_t bytes = burst.offset + (beat + uint64_t{1}) * bus_bytes_;
  const uint64_t last = burst.first + ((bytes - 1) >> access_bits_);
  while (returned_ <= last && done_[returned_] <= coming_clock_) ++returned_;
  return returned_ > last;
}

bool DramTiming::response_ready(uint64_t) {
  const WriteBurst& burst = writes_.front();
  return burst.missing == 0 && burst.clock + latency_ <= coming_clock_;
}

void DramTiming::retire(Direction direction, uint64_t) {
  if (direction == Direction::kRead) {
    done_.pop_before(reads_.front().end);
    reads_.pop();
  } else {
    writes_.pop();
  }
}

}  // namespace unembed
