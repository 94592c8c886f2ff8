// async_receive_batch and async_send_batch: several datagrams in one system call.

#include "op/datagram.hpp"

#include <algorithm>
#include <array>

namespace unio::inline v0_1 {
namespace {

constexpr std::size_t per_call = 32; // what the messages of one call take of the stack: 11 KiB

// Memory for control messages. Most have none, and it is not touched: so it lies apart from what each has.
template <std::size_t Bytes> struct control_memory {
  alignas(8) std::byte bytes[Bytes];
};

template <class Operation> void begin(io_operation& op) noexcept {
  op::value<Operation>(op) = 0; // bytes
  op::state<Operation>(op).errors_wait = false;
}

// ---- receiving -------------------------------------------------------------------------------------------

// As recvmmsg(2): how many, or a negative code if there is none.
int receive_some(int fd, address_family family, std::span<received_datagram> batch) noexcept {
  std::array<mmsghdr, per_call> messages;
  std::array<iovec, per_call> rooms;
  std::array<control_memory<256>, per_call> controls;
  std::size_t const wanted = std::min(batch.size(), per_call);
  int const n = op::apart_from_queued_errors(fd, 8, [&] {
    for (std::size_t i = 0; i < wanted; ++i) {
      rooms[i] = {batch[i].room.data(), batch[i].room.size()};
      messages[i] = {};
      msghdr& m = messages[i].msg_hdr;
      m.msg_iov = &rooms[i];
      m.msg_iovlen = 1;
      op::put_sender(m, batch[i].info);
      if (family == address_family::unix_path) continue; // see receive_from.cpp
      m.msg_control = controls[i].bytes;
      m.msg_controllen = sizeof(controls[i].bytes);
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
  if (op::as<async_receive_batch>(op).batch().empty()) return readiness::nothing;
  return op::state<async_receive_batch>(op).errors_wait ? readiness::retry : readiness::readable;
}

int receive(io_operation& op, attempt) noexcept {
  auto& s = op::state<async_receive_batch>(op);
  s.errors_wait = false;
  std::span<received_datagram> const batch = op::as<async_receive_batch>(op).batch();
  if (batch.empty()) return 0;
  // One call: the kernel reports what an earlier datagram met once, and a second call that met it could not
  // say so, having received what came before.
  int const n = receive_some(op.fd(), s.family, batch);
  if (n == -EAGAIN && op::is_shut_down(op.fd())) { // the end, as one that is empty
    batch.front().size = 0;
    op::decode_info({}, batch.front().info);
    return 1;
  }
  if (n == -EAGAIN) s.errors_wait = op::queued_errors_end_waits(op.fd());
  for (int i = 0; i < n; ++i) op::value<async_receive_batch>(op) += batch[static_cast<std::size_t>(i)].size;
  return n;
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
      if ((done != 0 || moved_ != 0) && op::has_report(fd_)) break;
      std::size_t const together = count_together(batch_.subspan(done));
      int const n = together != 0 ? send_together(batch_.subspan(done, together)) : 0;
      if (n > 0) {
        done += static_cast<std::size_t>(n);
        continue;
      }
      // What is more than one message, or was refused, finds its own way.
      datagram_to_send& d = batch_[done];
      failed = n == -EAGAIN || is_report(n) ? n : send_alone(d);
      if (failed < 0) break;
      if (d.sent < d.bytes.bytes()) break;
      ++done;
    }
    return done == 0 && moved_ == 0 && failed < 0 ? failed : static_cast<int>(done);
  }

 private:
  // What an earlier datagram met is reported once: it would be lost with another attempt.
  [[nodiscard]] bool is_report(int n) const noexcept {
    bool const is_refusal = n == -EMSGSIZE || n == -EPERM || n == -EACCES;
    return op::is_transport_error(n) && !is_refusal && !op::queues_errors(fd_);
  }

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
    std::array<mmsghdr, per_call> messages;
    std::array<iovec, per_call> pieces;
    std::array<control_memory<128>, per_call> controls;
    bool const with_ecn = !sys::last_waited(fd_, sys::refuses_ecn_bit);
    for (std::size_t i = 0; i < some.size(); ++i) {
      messages[i] = {};
      msghdr& m = messages[i].msg_hdr;
      (void)op::put_buffers(m, some[i].bytes, std::span(&pieces[i], 1));
      bool const segmented = op::is_segmented(some[i].how, family_, some[i].bytes.bytes());
      op::put_description(m, fd_, some[i].how, family_, segmented, with_ecn, controls[i].bytes);
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

// What elements say that they have sent is of an earlier run, but for a part of the first one's segments.
void begin_to_send(io_operation& op) noexcept {
  begin<async_send_batch>(op);
  std::span<datagram_to_send> const batch = op::as<async_send_batch>(op).batch();
  for (datagram_to_send& d : batch)
    if (&d != batch.data() || d.how.segment == 0 || d.sent >= d.bytes.bytes()) d.sent = 0;
}

readiness wants_to_send(io_operation const& op) noexcept {
  auto const& s = op::state<async_send_batch>(op);
  std::span<datagram_to_send> const batch = op::as<async_send_batch>(op).batch();
  if (batch.empty()) return readiness::nothing;
  return op::waits_blindly(batch.front().how, s.family) || s.errors_wait ? readiness::retry
                                                                         : readiness::writable;
}

int send(io_operation& op, attempt) noexcept {
  auto& s = op::state<async_send_batch>(op);
  s.errors_wait = false;
  batch_sending sending(op.fd(), s.family, op::as<async_send_batch>(op).batch());
  int const r = sending.send();
  op::value<async_send_batch>(op) = sending.moved();
  if (r == -EAGAIN) s.errors_wait = op::queued_errors_end_waits(op.fd());
  return r;
}

} // namespace

// Not for a ring: it has no entry for several messages, and one call for 32 of them costs less than 32
// entries.
constinit operation_faces const async_receive_batch::table_ = {.name = "receive_batch",
                                                               .begin = begin<async_receive_batch>,
                                                               .wants = wants_to_receive,
                                                               .perform = receive,
                                                               .complete = op::decode};

constinit operation_faces const async_send_batch::table_ = {.name = "send_batch",
                                                            .flow = direction::out,
                                                            .begin = begin_to_send,
                                                            .wants = wants_to_send,
                                                            .perform = send,
                                                            .complete = op::decode};

} // namespace unio
