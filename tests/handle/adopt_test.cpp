// adopt.hpp: descriptors from elsewhere as what they are. What the kinds' own adopt does to flags and numbers
// is in handle_test.cpp, datagram_test.cpp and listening_datagram_test.cpp.

#include "support/child.hpp"
#include "support/descriptors.hpp"
#include "support/drivers.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/adopt.hpp>

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <variant>

namespace {

using namespace test;

// Descriptors as another library makes them: they block, and a child would inherit them.
struct foreign {
  foreign() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0) stream = ends[0], peer = ends[1];
    if (::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0) datagrams = ends[0], datagram_peer = ends[1];
    if (::pipe(ends) == 0) reader = ends[0], writer = ends[1];
    listener = listening(SOCK_STREAM);
    sequenced_listener = listening(SOCK_SEQPACKET);
    directory.write("file", "say hello");
    file = ::open((directory / "file").c_str(), O_RDONLY);
    folder = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY);
    event = ::eventfd(3, 0);
    timer = ::timerfd_create(CLOCK_MONOTONIC, 0);
  }
  foreign(foreign const&) = delete;
  foreign& operator=(foreign const&) = delete;
  ~foreign() {
    for (int const fd : all()) // -1: it was adopted, and is the handle's
      if (fd >= 0) ::close(fd);
  }
  static int listening(int type) {
    sockaddr const unnamed{.sa_family = AF_UNIX, .sa_data = {}};
    int const fd = ::socket(AF_UNIX, type, 0);
    if (::bind(fd, &unnamed, sizeof(sa_family_t)) != 0 || ::listen(fd, 8) != 0) return -1;
    return fd;
  }
  [[nodiscard]] std::array<int, 12> all() const {
    return {stream, peer,     datagrams,          datagram_peer, reader, writer,
            file,   listener, sequenced_listener, folder,        event,  timer};
  }
  test::temporary_directory const directory;
  int stream = -1, peer = -1, datagrams = -1, datagram_peer = -1, reader = -1, writer = -1, file = -1,
      listener = -1, sequenced_listener = -1, folder = -1, event = -1, timer = -1;
};

class adopted_descriptor : public test::on_each_driver {
 protected:
  // As what it is, on the driver. `fd` is -1 from then on.
  template <class Handle> Handle take(int& fd) {
    unio::result<adopted> all = adopt(fd);
    EXPECT_TRUE(all) << all.error().message();
    Handle* const h = all ? std::get_if<Handle>(&*all) : nullptr;
    EXPECT_NE(h, nullptr) << "something else";
    if (h == nullptr) return {};
    EXPECT_EQ(h->native_handle(), fd);
    EXPECT_TRUE(is_close_on_exec(fd));
    fd = -1;
    h->set_multiplexer(m_.get());
    return std::move(*h);
  }
};

UNIO_ON_BOTH_DRIVERS(adopted_descriptor);

TEST_P(adopted_descriptor, is_the_kind_of_handle_that_it_leads_to_and_works_as_one) {
  foreign f;
  std::array<char, 32> room{};
  auto stream = take<unio::socket_handle>(f.stream);
  ASSERT_EQ(::write(f.peer, "abc", 3), 3);
  EXPECT_EQ(stream.read(room, 10s).value().bytes(), 3U);

  auto listener = take<unio::listening_socket_handle>(f.listener);
  auto client = unio::socket_handle::connected_to(listener.local_endpoint().value(), 10s);
  EXPECT_TRUE(client);
  EXPECT_TRUE(listener.accept(10s));

  auto datagrams = take<unio::datagram_handle>(f.datagrams);
  ASSERT_EQ(::send(f.datagram_peer, "abcd", 4, 0), 4);
  unio::datagram_info info;
  EXPECT_EQ(datagrams.receive_from(room, info, 10s).value().bytes(), 4U);

  auto const sequenced = take<unio::listening_datagram_handle>(f.sequenced_listener);
  EXPECT_TRUE(unio::datagram_handle::connected_to(sequenced.local_endpoint().value(), {.sequenced = true}));

  auto reader = take<unio::pipe_handle>(f.reader);
  auto writer = take<unio::pipe_handle>(f.writer);
  EXPECT_EQ(writer.write("hello", 10s).value().bytes(), 5U);
  EXPECT_EQ(reader.read(room, 10s).value().bytes(), 5U);

  auto file = take<unio::file_handle>(f.file);
  EXPECT_EQ(file.read({room, 4}, 10s).value().bytes(), 5U);
  EXPECT_EQ(file.kind(), unio::handle_kind::file);

  auto folder = take<unio::directory_handle>(f.folder);
  std::array<char, 4096> names{};
  unio::directory_listing const listing = folder.read(names).value();
  EXPECT_EQ(std::distance(listing.begin(), listing.end()), 1);

  auto event = take<unio::event_handle>(f.event);
  EXPECT_EQ(event.wait(10s).value(), 3U);

  auto const timer = take<unio::io_handle>(f.timer); // bytes, and nothing that is known of them
  EXPECT_TRUE(timer.is_open());
}

template <class Handle> std::error_code wrong(int fd) {
  std::error_code const why = adopt<Handle>(fd).error();
  EXPECT_TRUE(is_open(fd)) << "it is still the caller's";
  EXPECT_FALSE(is_close_on_exec(fd)) << "as it was";
  return why;
}

TEST(adopted, that_has_to_be_something_else_is_an_error_and_stays_the_callers) {
  foreign const f;
  EXPECT_EQ(wrong<unio::socket_handle>(f.reader), std::errc::not_a_socket);
  EXPECT_EQ(wrong<unio::socket_handle>(f.file), std::errc::not_a_socket);
  EXPECT_EQ(wrong<unio::socket_handle>(f.listener), std::errc::wrong_protocol_type);
  EXPECT_EQ(wrong<unio::socket_handle>(f.datagrams), std::errc::wrong_protocol_type);
  EXPECT_EQ(wrong<unio::listening_socket_handle>(f.stream), std::errc::invalid_argument);
  EXPECT_EQ(wrong<unio::listening_socket_handle>(f.sequenced_listener), std::errc::wrong_protocol_type);
  EXPECT_EQ(wrong<unio::datagram_handle>(f.stream), std::errc::wrong_protocol_type);
  EXPECT_EQ(wrong<unio::datagram_handle>(f.event), std::errc::not_a_socket);
  EXPECT_EQ(wrong<unio::listening_datagram_handle>(f.listener), std::errc::wrong_protocol_type);
  for (int const fd : {f.stream, f.reader, f.event, f.timer})
    EXPECT_EQ(wrong<unio::file_handle>(fd), std::errc::invalid_argument);
  EXPECT_EQ(wrong<unio::file_handle>(f.folder), std::errc::is_a_directory);
  for (int const fd : {f.stream, f.file, f.folder, f.event})
    EXPECT_EQ(wrong<unio::pipe_handle>(fd), std::errc::invalid_argument);
  for (int const fd : {f.stream, f.file, f.reader, f.event})
    EXPECT_EQ(wrong<unio::directory_handle>(fd), std::errc::not_a_directory);
  for (int const fd : {f.stream, f.file, f.reader, f.folder, f.timer})
    EXPECT_EQ(wrong<unio::event_handle>(fd), std::errc::invalid_argument);
  EXPECT_EQ(wrong<unio::io_handle>(f.folder), std::errc::is_a_directory);
}

TEST(adopted, that_is_not_open_is_an_error) {
  for (int const fd : {-1, 1'000'000}) {
    EXPECT_EQ(adopt(fd).error(), std::errc::bad_file_descriptor);
    EXPECT_EQ(adopt<unio::socket_handle>(fd).error(), std::errc::bad_file_descriptor);
    EXPECT_EQ(adopt<unio::file_handle>(fd).error(), std::errc::bad_file_descriptor);
    EXPECT_EQ(adopt<unio::pipe_handle>(fd).error(), std::errc::bad_file_descriptor);
    EXPECT_EQ(adopt<unio::directory_handle>(fd).error(), std::errc::bad_file_descriptor);
    EXPECT_EQ(adopt<unio::event_handle>(fd).error(), std::errc::bad_file_descriptor);
    EXPECT_EQ(adopt<unio::io_handle>(fd).error(), std::errc::bad_file_descriptor);
  }
}

template <class T>
concept can_be_adopted = requires { adopt<T>(0); };
static_assert(can_be_adopted<unio::file_handle> && can_be_adopted<unio::io_handle>);
static_assert(!can_be_adopted<unio::mapped_file_handle> && !can_be_adopted<unio::timer_handle>);

// As a service manager does it: descriptors from 3 on, which a child takes over.
TEST(adopted, is_what_the_service_manager_has_passed) {
  foreign const f;
  test::expect_in_child([&] {
    int const high[] = {::fcntl(f.listener, F_DUPFD, 500), ::fcntl(f.datagrams, F_DUPFD, 500),
                        ::fcntl(f.reader, F_DUPFD, 500)};
    for (int i = 0; i != 3; ++i) ::dup2(high[i], 3 + i);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", "3", 1);
    auto all = unio::inherited_handles::take_over();
    CHILD_EXPECTS(all && all->size() == 3 && all->native_handle(0) == 3);
    auto const listener = adopt(*all, 0);
    CHILD_EXPECTS(listener && std::holds_alternative<unio::listening_socket_handle>(*listener));
    auto const datagrams = adopt(*all, 1);
    CHILD_EXPECTS(datagrams && std::holds_alternative<unio::datagram_handle>(*datagrams));
    auto const pipe = adopt(*all, 2);
    CHILD_EXPECTS(pipe && std::holds_alternative<unio::pipe_handle>(*pipe));
    CHILD_EXPECTS(adopt(*all, 0).error() == std::errc::bad_file_descriptor); // it was taken
    CHILD_EXPECTS(adopt(*all, 3).error() == std::errc::bad_file_descriptor); // there is none
    CHILD_EXPECTS(all->native_handle(0) == -1 && all->native_handle(3) == -1);
    return CHILD_MEETS(is_close_on_exec(3) && is_close_on_exec(5));
  });
}

TEST(adopted, is_what_came_over_a_socket) {
  auto ends = unio::socket_handle::pair().value();
  auto const pipe = unio::pipe_handle::anonymous().value();
  auto const listener = unio::listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  unio::handle const* const sent[] = {&pipe.reader, &listener};
  ASSERT_TRUE(unio::send_handles(ends.first, "x", sent, 10s));
  char room[4];
  auto came = unio::receive_handles(ends.second, room, 10s);
  ASSERT_TRUE(came);
  ASSERT_EQ(came->handles.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<unio::pipe_handle>(adopt(came->handles, 0).value()));
  EXPECT_TRUE(std::holds_alternative<unio::listening_socket_handle>(adopt(came->handles, 1).value()));
  EXPECT_EQ(adopt(came->handles, 1).error(), std::errc::bad_file_descriptor);
}

} // namespace
