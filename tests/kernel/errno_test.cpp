// Errors that are not expected of the kernel: promise P10. They are passed on after one call.

#include "support/failing_calls.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

class kernel_errno : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_errno);

constexpr int unexpected[] = {EIO, EBADMSG, ENOMEM, ENOBUFS, ENOTCONN, EFAULT, ENXIO};

// Has `Member` fail, and runs `f`, which returns the error that came of it.
template <auto Member, class F> void expect_passed_on(F f) {
  for (int const error : unexpected) {
    failing_calls calls;
    calls.fail<Member>(error, {.times = which_calls::all});
    std::error_code const came = f();
    EXPECT_EQ(came, std::error_code(error, std::system_category())) << came.message();
    EXPECT_EQ(calls.count<Member>(), 1) << "errno " << error;
  }
}

DRIVER_TEST(kernel_errno, of_each_transfer_is_passed_on_after_one_call) {
  temporary_directory const directory;
  directory.write("file", "text");
  for (bool const with_own : {true, false}) {
    SCOPED_TRACE(with_own ? "on its multiplexer" : "blocking");
    unio::io_multiplexer* const own = with_own ? &m : nullptr;
    std::array<char, 8> memory{};
    std::array<unio::mutable_buffer, 2> const into = {unio::mutable_buffer(memory),
                                                      unio::mutable_buffer(memory)};
    unio::const_buffer const bytes(std::string_view("abc"));
    std::array<unio::const_buffer, 2> const from = {bytes, bytes};
    // Fresh each time: what a descriptor has lately been like decides whether it is tried at once.
    auto socket = [&] {
      connection c = local_connection(own);
      c.peer.write("abc");
      return c;
    };
    expect_passed_on<&table::recv>(
        [&] { return socket().socket.read(unio::mutable_buffer(memory)).error(); });
    expect_passed_on<&table::recvmsg>(
        [&] { return socket().socket.read(unio::mutable_buffers(into)).error(); });
    expect_passed_on<&table::readv>([&] {
      auto pipe = unio::pipe_handle::anonymous().value();
      pipe.reader.set_multiplexer(own);
      (void)!::write(pipe.writer.native_handle(), "abc", 3);
      return pipe.reader.read(unio::mutable_buffers(into)).error();
    });
    expect_passed_on<&table::send>([&] { return socket().socket.write(bytes).error(); });
    expect_passed_on<&table::sendmsg>(
        [&] { return socket().socket.write(unio::const_buffers(from)).error(); });
    expect_passed_on<&table::shutdown>(
        [&] { return socket().socket.shutdown(unio::socket_side::send).error(); });
    expect_passed_on<&table::read>([&] {
      auto pipe = unio::pipe_handle::anonymous().value();
      pipe.reader.set_multiplexer(own);
      return pipe.reader.read(unio::mutable_buffer(memory)).error();
    });
    expect_passed_on<&table::preadv2>([&] {
      auto f = unio::file_handle::file(directory.handle(), "file").value();
      f.set_multiplexer(own);
      return f.read({unio::mutable_buffer(memory), 0}).error();
    });
    expect_passed_on<&table::pwritev2>([&] {
      auto f = unio::file_handle::file(directory.handle(), "file", unio::handle::mode::write).value();
      f.set_multiplexer(own);
      return f.write({bytes, 0}).error();
    });
    expect_passed_on<&table::splice>([&] {
      auto pipe = unio::pipe_handle::anonymous().value();
      pipe.writer.set_multiplexer(own);
      connection c = socket();
      return unio::splice(c.socket, pipe.writer, {.bytes = 3}).error();
    });
  }
}

ISOLATED_TEST(kernel_errno, of_making_things_is_passed_on_and_leaves_nothing_open) {
  temporary_directory const directory;
  directory.write("file", "text");
  expect_passed_on<&table::openat>(
      [&] { return unio::file_handle::file(directory.handle(), "file").error(); });
  expect_passed_on<&table::socket>(
      [] { return unio::socket_handle::create(unio::address_family::ipv4).error(); });
  expect_passed_on<&table::socketpair>([] { return unio::socket_handle::pair().error(); });
  expect_passed_on<&table::pipe>([] { return unio::pipe_handle::anonymous().error(); });
  expect_passed_on<&table::eventfd>([] { return unio::event_handle::create().error(); });
  auto const listening = [] {
    return unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).error();
  };
  expect_passed_on<&table::bind>(listening);
  expect_passed_on<&table::listen>(listening);
  expect_passed_on<&table::setsockopt>(listening);
  expect_passed_on<&table::connect>([] {
    auto const [l, port] = raw_listener();
    return unio::socket_handle::connected_to(unio::endpoint::ipv4_loopback(port)).error();
  });
  expect_passed_on<&table::fstat>(
      [&] { return unio::mapped_file_handle::mapped_file(directory.handle(), "file").error(); });
}

// What epoll cannot take is an error of its operation, not of others.
ISOLATED_TEST(kernel_errno, of_registering_a_descriptor_ends_only_its_operation) {
  if (is_ring()) GTEST_SKIP() << "a ring registers no descriptors";
  auto const m = made_multiplexer();
  {
    connection first = local_connection(m.get());
    connection second = local_connection(m.get());
    std::array<char, 8> memory{};
    watched one{unio::async_read(first.socket, unio::mutable_buffer(memory))};
    watched two{unio::async_read(second.socket, unio::mutable_buffer(memory))};
    {
      failing_calls calls;
      calls.fail<&table::epoll_ctl>(ENOSPC); // epoll_ctl(2): max_user_watches
      one.start();
      two.start();
      ASSERT_TRUE(drive(*m, [&] { return one.ended(); }));
      EXPECT_EQ(calls.failures<&table::epoll_ctl>(), 1);
    }
    EXPECT_EQ(one.error.value(), ENOSPC);
    second.peer.write("abc");
    ASSERT_TRUE(drive(*m, [&] { return two.ended(); }));
    EXPECT_EQ(two.bytes, 3u);
    // The first can be read again.
    one.reset();
    one.start();
    first.peer.write("abc");
    ASSERT_TRUE(drive(*m, [&] { return one.ends == 2; }));
    EXPECT_EQ(one.bytes, 3u);
  }
  expect_nothing_in_flight(*m);
}

// Making a multiplexer fails at any of its steps without leaving anything open.
template <auto... Members> void expect_made_or_nothing() {
  auto const one = [&]<auto Member>() {
    for (int at = 1; at < 8; ++at) {
      failing_calls calls;
      calls.fail<Member>(EMFILE, {.at = at});
      auto const before = open_descriptors();
      {
        auto const made = unio::io_multiplexer::best_available(1);
      }
      EXPECT_EQ(open_descriptors(), before);
    }
  };
  (one.template operator()<Members>(), ...);
}

ISOLATED_TEST(kernel_errno, while_a_multiplexer_is_made_leaves_nothing_open) {
  expect_made_or_nothing<&table::eventfd, &table::epoll_create, &table::epoll_ctl, &table::io_uring_setup,
                         &table::io_uring_register, &table::io_uring_enter>();
}

} // namespace
