// src/op/control_messages.hpp: what the kernel says beside the bytes of a message, and what it might say.

#include "op/control_messages.hpp"

#include "op/datagram.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"

#include <netinet/udp.h>

#include <ctime>
#include <random>

namespace {

using unio::op::control_message;
using unio::op::control_messages;
using unio::op::control_writer;

/// The bytes in memory of exactly that size, so that a sanitizer sees a read beyond it.
std::unique_ptr<std::byte[]> exact(std::span<std::byte const> bytes) {
  auto copy = std::make_unique<std::byte[]>(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  return copy;
}

/// How many messages there are, and the size of all their data.
std::pair<std::size_t, std::size_t> read_all(std::span<std::byte const> bytes) {
  auto const copy = exact(bytes);
  control_messages all({copy.get(), bytes.size()});
  std::size_t n = 0;
  std::size_t size = 0;
  unsigned sum = 0;
  for (control_message c; all.next(c); ++n) {
    size += c.data.size();
    for (std::byte const b : c.data) sum += static_cast<unsigned>(b);
  }
  EXPECT_LT(sum, std::numeric_limits<unsigned>::max());
  return {n, size};
}

std::vector<std::byte> three_messages() {
  alignas(8) std::byte memory[256];
  control_writer w(memory);
  w.put(IPPROTO_IP, IP_TOS, std::uint8_t{3});
  w.put(SOL_UDP, UDP_GRO, int{1200});
  in_pktinfo p{};
  p.ipi_ifindex = 7;
  w.put(IPPROTO_IP, IP_PKTINFO, p);
  return {memory, memory + w.size()};
}

TEST(control_messages, are_read_as_they_were_written) {
  std::vector<std::byte> const bytes = three_messages();
  control_messages all(bytes);
  control_message c;
  ASSERT_TRUE(all.next(c));
  std::uint8_t tos = 0;
  EXPECT_TRUE(c.is(IPPROTO_IP, IP_TOS) && c.get(tos));
  EXPECT_EQ(tos, 3);
  int too_long = 0;
  EXPECT_FALSE(c.get(too_long));
  ASSERT_TRUE(all.next(c));
  int segment = 0;
  EXPECT_TRUE(c.is(SOL_UDP, UDP_GRO) && c.get(segment));
  EXPECT_EQ(segment, 1200);
  ASSERT_TRUE(all.next(c));
  in_pktinfo p;
  EXPECT_TRUE(c.is(IPPROTO_IP, IP_PKTINFO) && c.get(p));
  EXPECT_EQ(p.ipi_ifindex, 7);
  EXPECT_FALSE(all.next(c));
}

TEST(control_messages, are_what_the_systems_own_macros_find) {
  std::vector<std::byte> bytes = three_messages();
  msghdr m{};
  m.msg_control = bytes.data();
  m.msg_controllen = bytes.size();
  std::size_t n = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) ++n;
  EXPECT_EQ(read_all(bytes).first, n);
}

TEST(control_messages, that_are_cut_at_any_byte_are_read_up_to_there) {
  std::vector<std::byte> const bytes = three_messages();
  std::size_t last = 0;
  for (std::size_t n = 0; n <= bytes.size(); ++n) {
    auto const [count, size] = read_all(std::span(bytes).first(n));
    EXPECT_LE(size, n);
    EXPECT_GE(count, last);
    last = count;
  }
  EXPECT_EQ(last, 3U);
}

TEST(control_messages, with_a_length_that_lies_outside_end) {
  for (std::size_t const length :
       {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{1000},
        std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() - 7}) {
    std::vector<std::byte> bytes = three_messages();
    std::memcpy(bytes.data(), &length, sizeof length);
    auto const [count, size] = read_all(bytes);
    EXPECT_LE(size, bytes.size());
    EXPECT_LE(count, 4U);
  }
}

TEST(control_messages, with_a_time_that_is_none_are_as_if_they_were_not_there) {
  for (timespec const t :
       {timespec{-1, 0}, timespec{std::numeric_limits<long>::max(), 0}, timespec{9'000'000'001, 0},
        timespec{1, -1}, timespec{1, 1'000'000'000}, timespec{1, std::numeric_limits<long>::max()}}) {
    alignas(8) std::byte memory[64];
    control_writer w(memory);
    w.put(SOL_SOCKET, SCM_TIMESTAMPNS, t);
    msghdr m{};
    m.msg_control = memory;
    m.msg_controllen = w.size();
    unio::datagram_info info;
    unio::op::decode_info(m, info);
    EXPECT_EQ(info.at, std::chrono::system_clock::time_point());
  }
}

TEST(control_messages, written_beyond_the_memory_are_left_out) {
  alignas(8) std::byte memory[CMSG_SPACE(sizeof(int)) + 8];
  control_writer w(memory);
  w.put(SOL_UDP, UDP_SEGMENT, 1);
  w.put(SOL_UDP, UDP_SEGMENT, 2);
  EXPECT_EQ(w.size(), CMSG_SPACE(sizeof(int)));
}

// Bytes at random, and messages with a few bytes changed, of which most get past the first checks.
TEST(control_messages, of_any_bytes_are_read_within_these_bytes) {
  std::mt19937_64 random(7);
  std::vector<std::byte> const good = three_messages();
  for (int i = 0; i < 50'000; ++i) {
    std::vector<std::byte> bytes = good;
    if (i % 4 == 0) {
      bytes.resize(random() % 120);
      for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    } else {
      for (std::uint64_t n = random() % 4; n > 0; --n)
        bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 3 == 0 ? random() : random() % 64);
      bytes.resize(random() % (bytes.size() + 1));
    }
    EXPECT_LE(read_all(bytes).second, bytes.size());
    auto const copy = exact(bytes);
    msghdr m{};
    m.msg_control = copy.get();
    m.msg_controllen = bytes.size();
    unio::datagram_info info;
    unio::op::decode_info(m, info);
    EXPECT_LE(static_cast<int>(info.ecn), 3);
  }
}

// The canary: a reader that trusts the length is found out by the check above.
TEST(control_messages, that_are_trusted_would_be_read_beyond_the_end) {
  std::vector<std::byte> bytes = three_messages();
  std::size_t const length = 1000;
  std::memcpy(bytes.data(), &length, sizeof length);
  cmsghdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  EXPECT_GT(header.cmsg_len - sizeof header, bytes.size());
}

} // namespace
