// async_receive_batch and async_send_batch: several datagrams in one system call.

#include "op/datagram.hpp"

#include <algorithm>
#include <array>

namespace unio::inline v0_1 {
namespace {

using op::dgram;

constexpr std::size_t per_call = 32; // what the messages of one call take of the stack: 11 KiB

template <class Operation> Operation& as(io_operation& op) noexcept { return static_cast<Operation&>(op); }
template <class Operation> Operation const& as(io_operation const& op) noexcept {
  return static_cast<Operation const&>(op);
}

template <class Operation> void begin(io_operation& op) noexcept {
  dgram::moved(as<Operation>(op)) = 0;
  dgram::errors_wait(as<Operation>(op)) = false;
}

// ---- receiving -------------------------------------------------------------------------------------------

// As recvmmsg(2): how many, or a negative code if there is none.
int receive_some(int fd, address_family family, std::span<received_datagram> batch) noexcept {
  struct place {
    iovec room;
    alignas(8) std::byte control[256];
  };
  std::array<mmsghdr, per_call> messages;
  std::array<place, per_call> places;
  std::size_t const wanted = std::min(batch.size(), per_call);
  int const n = op::apart_from_queued_errors(fd, 8, [&] {
    for (std::size_t i = 0; i < wanted; ++i) {
      place& p = places[i];
      p.room = {batch[i].room.data(), batch[i].room.size()};
      messages[i] = {};
      msghdr& m = messages[i].msg_hdr;
      m.msg_iov = &p.room;
      m.msg_iovlen = 1;
      op::put_sender(m, batch[i].info);
      if (family == address_family::unix_path) continue; // see receive_from.cpp
      m.msg_control = p.control;
      m.msg_controllen = sizeof(p.control);
    }
    return sys::recvmmsg(fd, messages.data(), static_cast<unsigned>(wanted), MSG_DONTWAIT);
  });
  for (std::size_t i = 0; n > 0 && i < static_cast<std::size_t>(n); ++i) {
    op::decode_info(messages[i].msg_hdr, batch[i].info);
    batch[i].size = std::min<std::size_t>(messages[i].msg_len, batch[i].room.size());
  }
  return n;
}

readiness wants_to_receive(io_operation const& op) noexcept {
  auto const& me = as<async_receive_batch>(op);
  if (dgram::batch(me).empty()) return readiness::nothing;
  return dgram::errors_wait(me) ? readiness::retry : readiness::readable;
}

int receive(io_operation& op, attempt) noexcept {
  auto& me = as<async_receive_batch>(op);
  dgram::errors_wait(me) = false;
  std::size_t done = 0;
  for (std::span<received_datagram> rest = dgram::batch(me); !rest.empty();) {
    int const n = receive_some(op.fd(), dgram::family(me), rest);
    if (n < 0 && done == 0) {
      if (n == -EAGAIN) dgram::errors_wait(me) = op::queued_errors_end_waits(op.fd());
      return n;
    }
    if (n <= 0) break;
    auto const received = static_cast<std::size_t>(n);
    for (received_datagram const& d : rest.first(received)) dgram::moved(me) += d.size;
    done += received;
    if (received < std::min(rest.size(), per_call)) break;
    rest = rest.subspan(received);
  }
  return static_cast<int>(done);
}

// ---- sending ---------------------------------------------------------------------------------------------

class batch_sending {
 public:
  batch_sending(int fd, address_family family, std::span<datagram_to_send> batch) noexcept
      : fd_(fd), family_(family), batch_(batch) {}

  [[nodiscard]] std::size_t moved() const noexcept { return moved_; }

  /// How many were sent whole, or a negative code if nothing was sent.
  int send() noexcept {
    std::size_t done = 0;
    int failed = 0;
    while (done < batch_.size()) {
      std::size_t const together = count_together(batch_.subspan(done));
      int const n = together != 0 ? send_together(batch_.subspan(done, together)) : 0;
      if (n > 0) {
        done += static_cast<std::size_t>(n);
        continue;
      }
      // What is more than one message, or was refused, finds its own way.
      datagram_to_send& d = batch_[done];
      failed = n == -EAGAIN ? n : send_alone(d);
      if (failed < 0) break;
      if (d.sent < d.bytes.bytes()) break;
      ++done;
    }
    return done == 0 && moved_ == 0 && failed < 0 ? failed : static_cast<int>(done);
  }

 private:
  [[nodiscard]] bool is_one_message(datagram_to_send const& d) const noexcept {
    std::size_t const total = d.bytes.bytes();
    if (d.sent != 0 || d.bytes.size() > 1) return false;
    if (!op::is_segmented(d.how, family_, total)) return true;
    return total <= op::longest_send(d.how, total) && !sys::last_waited(fd_, sys::sends_singly_bit);
  }

  [[nodiscard]] std::size_t count_together(std::span<datagram_to_send> rest) const noexcept {
    std::size_t n = 0;
    while (n < rest.size() && n < per_call && is_one_message(rest[n])) ++n;
    return n;
  }

  int send_together(std::span<datagram_to_send> some) noexcept {
    struct place {
      iovec bytes;
      alignas(8) std::byte control[128];
    };
    std::array<mmsghdr, per_call> messages;
    std::array<place, per_call> places;
    bool const with_ecn = !sys::last_waited(fd_, sys::refuses_ecn_bit);
    for (std::size_t i = 0; i < some.size(); ++i) {
      messages[i] = {};
      msghdr& m = messages[i].msg_hdr;
      (void)op::put_buffers(m, some[i].bytes, std::span(&places[i].bytes, 1));
      bool const segmented = op::is_segmented(some[i].how, family_, some[i].bytes.bytes());
      op::put_description(m, some[i].how, family_, segmented, with_ecn, places[i].control);
    }
    int const n = op::uninterrupted([&] {
      return sys::sendmmsg(fd_, messages.data(), static_cast<unsigned>(some.size()),
                           MSG_NOSIGNAL | MSG_DONTWAIT);
    });
    for (std::size_t i = 0; n > 0 && i < static_cast<std::size_t>(n); ++i) {
      some[i].sent = some[i].bytes.bytes();
      moved_ += some[i].sent;
    }
    return n;
  }

  int send_alone(datagram_to_send& d) noexcept {
    int const n = op::send_datagram(fd_, family_, d.how, d.bytes, d.sent);
    if (n < 0) return n;
    d.sent += static_cast<std::size_t>(n);
    moved_ += static_cast<std::size_t>(n);
    return 0;
  }

  int fd_;
  address_family family_;
  std::span<datagram_to_send> batch_;
  std::size_t moved_ = 0;
};

readiness wants_to_send(io_operation const& op) noexcept {
  auto const& me = as<async_send_batch>(op);
  if (dgram::batch(me).empty()) return readiness::nothing;
  bool const blindly = op::waits_blindly(dgram::batch(me).front().how, dgram::family(me));
  return blindly || dgram::errors_wait(me) ? readiness::retry : readiness::writable;
}

int send(io_operation& op, attempt) noexcept {
  auto& me = as<async_send_batch>(op);
  dgram::errors_wait(me) = false;
  batch_sending s(op.fd(), dgram::family(me), dgram::batch(me));
  int const r = s.send();
  dgram::moved(me) = s.moved();
  if (r == -EAGAIN) dgram::errors_wait(me) = op::queued_errors_end_waits(op.fd());
  return r;
}

outcome complete(io_operation& op, int res, unsigned) noexcept { return op::decode(op, res); }

} // namespace

// Not for a ring: it has no entry for several messages, and one call for 32 of them costs less than 32
// entries.
constinit operation_faces const detail::receive_batch_faces = {.name = "receive_batch",
                                                               .tries = inline_attempt::predicted,
                                                               .interruptible = true,
                                                               .begin = begin<async_receive_batch>,
                                                               .wants = wants_to_receive,
                                                               .perform = receive,
                                                               .complete = complete};

constinit operation_faces const detail::send_batch_faces = {.name = "send_batch",
                                                            .tries = inline_attempt::predicted,
                                                            .interruptible = true,
                                                            .flow = direction::out,
                                                            .begin = begin<async_send_batch>,
                                                            .wants = wants_to_send,
                                                            .perform = send,
                                                            .complete = complete};

} // namespace unio
