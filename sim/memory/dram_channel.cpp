#include "dram_channel.h"

#include <algorithm>
#include <bit>

namespace unembed {

DramChannel::DramChannel(const DramOptions& options, uint32_t ports)
    : options_(options),
      banks_(options.bank_groups * options.banks),
      groups_(options.bank_groups),
      ports_(ports),
      entries_(options.queue * ports + kWriteBuffer),
      next_refresh_(options.refresh ? options.trefi : kNever) {
  for (uint32_t bank = 0; bank < banks_.size(); ++bank) banks_[bank].group = bank / options.banks;
  for (uint32_t index = 0; index < entries_.size(); ++index) free_.push_back(index);
}

void DramChannel::connect(uint32_t port, DramClient* client, uint32_t route) {
  ports_[port].client = client;
  ports_[port].route = route;
}

void DramChannel::push(uint32_t port, Direction direction, uint64_t clock,
                       const DramLocation& location, uint64_t number) {
  const Access access{clock, number, port, location.bank, location.row};
  ++ports_[port].accesses;
  if (direction == Direction::kRead) {
    ports_[port].waiting.push(access);
    admit_reads(ports_[port], clock);
  } else {
    waiting_writes_.push(access);
    admit_writes(clock);
  }
}

void DramChannel::admit_reads(Port& port, uint64_t clock) {
  while (port.looked_at < options_.queue && !port.waiting.empty()) {
    Access access = port.waiting.front();
    port.waiting.pop();
    access.clock = port.last_read = std::max({access.clock, clock, port.last_read + 1});
    ++port.looked_at;
    enter(kRead, access);
  }
}

void DramChannel::admit_writes(uint64_t clock) {
  while (buffered_writes_ < kWriteBuffer && !waiting_writes_.empty()) {
    Access access = waiting_writes_.front();
    waiting_writes_.pop();
    access.clock = last_write_ = std::max({access.clock, clock, last_write_ + 1});
    ++buffered_writes_;
    enter(kWrite, access);
    const Port& port = ports_[access.port];
    port.client->write_taken(port.route, access.number, access.clock);
  }
}

void DramChannel::enter(uint32_t direction, const Access& access) {
  const uint32_t index = free_.back();
  free_.pop_back();
  Bank& bank = banks_[access.bank];
  List& list = bank.lists[direction];
  entries_[index] = {access, list.last, kNone};
  (list.last == kNone ? list.first : entries_[list.last].next) = index;
  list.last = index;
  list.hits += bank.open && bank.row == access.row;
  pending_[direction] |= uint64_t{1} << access.bank;
  next_ = std::min(next_, access.clock);
}

void DramChannel::remove(uint32_t direction, uint32_t index) {
  const Entry& entry = entries_[index];
  Bank& bank = banks_[entry.access.bank];
  List& list = bank.lists[direction];
  (entry.previous == kNone ? list.first : entries_[entry.previous].next) = entry.next;
  (entry.next == kNone ? list.last : entries_[entry.next].previous) = entry.previous;
  list.hits -= bank.open && bank.row == entry.access.row;
  if (list.first == kNone) pending_[direction] &= ~(uint64_t{1} << entry.access.bank);
  free_.push_back(index);
}

void DramChannel::forget(uint32_t number, uint64_t now) {
  Port& port = ports_[number];
  if (port.accesses == 0) return;
  for (const uint32_t direction : {kRead, kWrite}) {
    for (Bank& bank : banks_) {
      for (uint32_t index = bank.lists[direction].first; index != kNone;) {
        const uint32_t following = entries_[index].next;
        if (entries_[index].access.port == number) {
          remove(direction, index);
          buffered_writes_ -= direction == kWrite;
        }
        index = following;
      }
    }
  }
  port.looked_at = 0;
  port.waiting.clear();
  port.accesses = 0;
  for (size_t count = waiting_writes_.size(); count > 0; --count) {
    const Access access = waiting_writes_.front();
    waiting_writes_.pop();
    if (access.port != number) waiting_writes_.push(access);
  }
  admit_writes(now + 1);
}

void DramChannel::steps(uint64_t now) {
  for (;;) {
    choose_direction();
    const Step step = next_step();
    if (step.clock >= next_refresh_ && step.clock != kNever) {
      if (next_refresh_ > now) {
        next_ = next_refresh_;
        return;
      }
      refresh(std::min(step.clock, now));
    } else if (step.clock > now) {
      next_ = step.clock;
      return;
    } else if (step.column) {
      column(step);
    } else {
      activate(step);
    }
  }
}

void DramChannel::choose_direction() {
  if (direction_ == kRead) {
    if (buffered_writes_ >= kWriteHigh) direction_ = kWrite;
  } else if (buffered_writes_ == 0 || (buffered_writes_ <= kWriteLow && pending_[kRead] != 0)) {
    direction_ = kRead;
  }
}

DramChannel::Step DramChannel::next_step() const {
  uint32_t direction = direction_;
  uint64_t earliest = 0;
  if (pending_[kRead] == 0 && pending_[kWrite] != 0 && direction == kRead) {
    direction = kWrite;
    earliest = last_column_ + kIdleClocks;
  }
  Step best;
  for (uint64_t banks = pending_[direction]; banks != 0; banks &= banks - 1) {
    Step step = step_of(direction, std::countr_zero(banks));
    step.clock = std::max(step.clock, earliest);
    if (step.clock < best.clock ||
        (step.clock == best.clock &&
         entries_[step.entry].access.clock < entries_[best.entry].access.clock)) {
      best = step;
    }
  }
  return best;
}

DramChannel::Step DramChannel::step_of(uint32_t direction, uint32_t number) const {
  const Bank& bank = banks_[number];
  const Group& group = groups_[bank.group];
  const uint32_t index = entry_to_serve(bank, bank.lists[direction]);
  const Access& access = entries_[index].access;
  uint64_t clock = access.clock;
  const bool column = bank.open && bank.row == access.row;
  if (column) {
    clock = std::max({clock, bank.column_ok[direction], group.column_ok[direction],
                      column_ok_[direction]});
  } else {
    if (bank.open) clock = std::max(clock, bank.precharge_ok) + options_.trp;
    clock = std::max({clock, bank.activate_ok, group.activate_ok, activate_ok_,
                      activations_[next_activation_]});
  }
  return {clock, direction, number, index, column};
}

// The oldest, unless the row is about to be closed for it while others still need that row. They
// may go first as often as fit into the queue, so that nobody waits forever.
uint32_t DramChannel::entry_to_serve(const Bank& bank, const List& list) const {
  const Access& oldest = entries_[list.first].access;
  if (!bank.open || list.hits == 0 || oldest.row == bank.row ||
      bank.overtaken >= options_.queue) {
    return list.first;
  }
  uint32_t index = list.first;
  while (entries_[index].access.row != bank.row) index = entries_[index].next;
  const bool in_time = entries_[index].access.clock <= std::max(oldest.clock, bank.precharge_ok);
  return in_time ? index : list.first;
}

void DramChannel::activate(const Step& step) {
  Bank& bank = banks_[step.bank];
  bank.open = true;
  bank.row = entries_[step.entry].access.row;
  bank.overtaken = 0;
  bank.column_ok[kRead] = step.clock + options_.trcd;
  bank.column_ok[kWrite] = step.clock + options_.trcd_write;
  bank.precharge_ok = step.clock + options_.tras;
  bank.activate_ok = step.clock + options_.trc;
  groups_[bank.group].activate_ok = step.clock + options_.trrd_l;
  activate_ok_ = step.clock + options_.trrd_s;
  activations_[next_activation_] = step.clock + options_.tfaw;
  next_activation_ = (next_activation_ + 1) % std::size(activations_);
  count_hits(bank);
}

void DramChannel::column(const Step& step) {
  const Access access = entries_[step.entry].access;
  Bank& bank = banks_[step.bank];
  Group& group = groups_[bank.group];
  Port& port = ports_[access.port];
  const uint64_t clock = step.clock;
  last_column_ = clock;
  direction_ = step.direction;
  column_ok_[step.direction] = clock + options_.tccd_s;
  group.column_ok[step.direction] = clock + options_.tccd_l;
  bank.overtaken += step.entry != bank.lists[step.direction].first;
  --port.accesses;
  remove(step.direction, step.entry);
  if (step.direction == kRead) {
    const uint64_t done = clock + options_.cl + options_.access_clocks;
    // Two clocks for the bus to turn around.
    column_ok_[kWrite] = done + 2 - options_.cwl;
    bank.precharge_ok = std::max(bank.precharge_ok, clock + options_.trtp);
    --port.looked_at;
    port.client->read_done(port.route, access.number, done);
    admit_reads(port, clock + 1);
  } else {
    const uint64_t done = clock + options_.cwl + options_.access_clocks;
    column_ok_[kRead] = done + options_.twtr_s;
    group.column_ok[kRead] = done + options_.twtr_l;
    bank.precharge_ok = std::max(bank.precharge_ok, done + options_.twr);
    --buffered_writes_;
    admit_writes(clock + 1);
  }
}

// The refresh that is due at `clock`. Those before it, if any, fell into a time without accesses.
void DramChannel::refresh(uint64_t clock) {
  const uint64_t missed = (clock - next_refresh_) / options_.trefi;
  next_refresh_ += missed * options_.trefi;
  const uint64_t start = std::max(next_refresh_, last_column_ + 1);
  uint64_t closed = start;
  for (Bank& bank : banks_) {
    if (!bank.open) continue;
    // The first of the missed ones has closed the rows.
    if (missed == 0) closed = std::max(closed, std::max(start, bank.precharge_ok) + options_.trp);
    bank.open = false;
    count_hits(bank);
  }
  activate_ok_ = closed + options_.trfc;
  next_refresh_ += options_.trefi;
}

void DramChannel::count_hits(Bank& bank) {
  for (List& list : bank.lists) {
    list.hits = 0;
    if (!bank.open) continue;
    for (uint32_t index = list.first; index != kNone; index = entries_[index].next) {
      list.hits += entries_[index].access.row == bank.row;
    }
  }
}

}  // namespace unembed
