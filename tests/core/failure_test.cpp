// error.hpp, result.hpp: failures name the operation and its object, however the operation was run.

#include "support/child.hpp"
#include "support/drivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/process_handle.hpp>

#include <sys/socket.h>

#include <sstream>

namespace {

using namespace test;
using unio::failure;
using unio::detail::failed;
using unio::detail::failed_on;

constexpr char const* refused = "Connection refused";

failure on(std::string_view object) { return failed_on(-ENOENT, "try", object.data(), object.size()); }

/// An address at which nothing listens.
endpoint free_address() {
  auto const taken = unio::listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  return taken.local_endpoint().value();
}

std::string descriptor(unio::handle const& h) { return "descriptor " + std::to_string(h.native_handle()); }

// ---- the value --------------------------------------------------------------------------------------------

TEST(failure, knows_nothing_unless_told) {
  failure const none;
  EXPECT_FALSE(none);
  failure const bare = std::make_error_code(std::errc::broken_pipe);
  EXPECT_STREQ(bare.operation(), "");
  EXPECT_EQ(bare.object(), "");
  EXPECT_EQ(bare.message(), bare.code().message());
}

TEST(failure, names_operation_and_descriptor) {
  failure const f = failed(-EPIPE, "write", 0);
  EXPECT_STREQ(f.operation(), "write");
  EXPECT_EQ(f.object(), "descriptor 0");
  EXPECT_EQ(f.message(), "write descriptor 0: " + f.code().message());
  EXPECT_EQ(failed(-EPIPE, "write").message(), "write: " + f.code().message());
}

TEST(failure, leaves_out_a_descriptor_that_its_bits_cannot_hold) {
  EXPECT_EQ(failed(-EPIPE, "write", (1 << 23) - 2).object(), "descriptor 8388606");
  EXPECT_EQ(failed(-EPIPE, "write", (1 << 23) - 1).object(), "");
  EXPECT_EQ(failed(-EPIPE, "write", 0x7fffffff).object(), "");
}

TEST(failure, compares_as_its_code) {
  failure const f = failed(-ETIMEDOUT, "read", 3);
  EXPECT_EQ(f, condition::timed_out);
  EXPECT_EQ(f, std::errc::timed_out);
  EXPECT_EQ(f, failed(-ETIMEDOUT, "write", 4));
  EXPECT_NE(f, condition::canceled);
  std::error_code const code = f;
  EXPECT_EQ(code, f);
  EXPECT_EQ(failed(unio::detail::native(unio::error::truncated), "read"), unio::error::truncated);
  failure assigned;
  assigned = unio::error::truncated;
  EXPECT_EQ(assigned, condition::truncated);
}

TEST(failure, is_written_to_a_stream_as_its_code) {
  std::ostringstream as_failure;
  std::ostringstream as_code;
  as_failure << failed(-EPIPE, "write", 3);
  as_code << unio::detail::to_error_code(-EPIPE);
  EXPECT_EQ(as_failure.str(), as_code.str());
}

TEST(failure, takes_no_room_in_a_result) {
  EXPECT_EQ(sizeof(result<>), sizeof(std::expected<void, std::error_code>));
  EXPECT_EQ(sizeof(result<char>), sizeof(std::expected<char, std::error_code>));
  EXPECT_EQ(sizeof(result<std::string>), sizeof(std::expected<std::string, std::error_code>));
  EXPECT_EQ(sizeof(failure), 24u);
}

TEST(failure, is_passed_on_by_results_of_other_types) {
  result<int> const first = on("a");
  auto pass = [](result<int> const& r) -> result<std::string> { return r.error(); };
  auto pass_unexpected = [](result<int> const& r) -> result<std::string> {
    return std::unexpected(r.error());
  };
  auto with_bytes = [](failure const& f) -> io_result<void> { return {f, 7}; };
  EXPECT_EQ(pass(first).error().object(), "a");
  EXPECT_EQ(pass_unexpected(first).error().object(), "a");
  EXPECT_EQ(with_bytes(pass(first).error()).error().object(), "a");
  EXPECT_EQ(with_bytes(pass(first).error()).bytes_transferred(), 7u);
  result<int> const copy = first; // NOLINT: copied on purpose
  EXPECT_EQ(copy.error().object(), "a");
}

TEST(failure, of_a_result_is_gone_when_that_gets_a_value) {
  result<int> r = on("a");
  r = 3;
  EXPECT_FALSE(r.error());
  EXPECT_EQ(r.error().message(), failure().message());
}

#ifdef __cpp_exceptions
std::string what_throws(result<int> const& r) {
  try {
    (void)r.value();
  } catch (std::system_error const& e) {
    EXPECT_EQ(e.code(), r.error());
    return e.what();
  }
  return "nothing";
}

TEST(failure, is_the_text_of_the_exception) {
  EXPECT_EQ(what_throws(on("a")), on("a").message());
  EXPECT_EQ(what_throws(failed(-EPIPE, "write", 3)), failed(-EPIPE, "write", 3).message());
  EXPECT_EQ(what_throws(unio::error::truncated), make_error_code(unio::error::truncated).message());
}

TEST(parse_endpoint, throws_what_is_wrong_with_the_text) {
  try {
    (void)unio::parse_endpoint("127.0.0.1").value();
    FAIL();
  } catch (std::system_error const& e) {
    EXPECT_EQ(e.code(), unio::error::invalid_address);
    EXPECT_STREQ(e.what(),
                 "parse_endpoint \"127.0.0.1\" (a colon and the port are missing): the text is not "
                 "an address");
  }
}
#else
TEST(failure, is_printed_where_nothing_can_be_thrown) {
  result<int> const r = on("a");
  EXPECT_DEATH((void)r.value(), "try a: ");
}
#endif

TEST(parse_endpoint, shows_the_end_of_a_long_text_and_the_whole_reason) {
  std::string const text = std::string(500, 'x') + ":80";
  std::string const object = unio::parse_endpoint(text).error().object();
  EXPECT_TRUE(object.starts_with("\"...xxx")) << object;
  EXPECT_TRUE(object.ends_with(")")) << object;
  EXPECT_NE(object.find("x:80\" ("), object.npos) << object;
}

TEST(parse_endpoint, keeps_no_failure_where_its_caller_is_told_the_reason) {
  failure const before = on("kept");
  std::string why;
  for (int i = 0; i != 300; ++i) {
    failure const f = unio::parse_endpoint("127.0.0.1", &why).error();
    EXPECT_STREQ(f.operation(), "parse_endpoint");
    EXPECT_EQ(f.object(), "");
  }
  EXPECT_EQ(why, "\"127.0.0.1\" is not an address: a colon and the port are missing");
  EXPECT_EQ(before.object(), "kept");
}

// ---- what is kept -----------------------------------------------------------------------------------------

TEST(failure, keeps_the_last_256_objects_and_of_older_ones_the_operation) {
  std::vector<failure> all;
  for (int i = 0; i != 300; ++i) all.push_back(on("object " + std::to_string(i)));
  for (std::size_t i = 0; i != all.size(); ++i) {
    EXPECT_STREQ(all[i].operation(), "try");
    EXPECT_EQ(all[i].object(), i < 300 - 256 ? "" : "object " + std::to_string(i));
  }
  EXPECT_EQ(all.front().message(), "try: " + all.front().code().message());
}

TEST(failure, shows_that_a_text_was_cut) {
  std::string const fits(unio::detail::failed_object::capacity, 'a');
  EXPECT_EQ(on(fits).object(), fits);
  std::string const longer = fits + "/end";
  EXPECT_EQ(on(longer).object(), "..." + longer.substr(longer.size() - fits.size() + 3));
  EXPECT_EQ(on("").object(), "''") << "an empty name";
}

TEST(failure, shows_the_right_object_or_none_while_many_threads_fail) {
  constexpr int threads = 8;
  constexpr int each = 3000;
  std::atomic<int> shown{0};
  std::vector<std::thread> all;
  for (int t = 0; t != threads; ++t)
    all.emplace_back([t, &shown] {
      std::string const text(60 + t * 7, static_cast<char>('a' + t));
      std::vector<failure> mine;
      for (int i = 0; i != each; ++i) {
        mine.push_back(on(text));
        std::string const seen = mine[static_cast<std::size_t>(i) / 64 * 64].object();
        if (!seen.empty()) {
          EXPECT_EQ(seen, text);
          ++shown;
        }
        EXPECT_STREQ(mine.back().operation(), "try");
      }
    });
  for (std::thread& t : all) t.join();
  EXPECT_GT(shown, 0);
}

TEST(failure, has_no_name_where_more_operations_failed_than_it_numbers) {
  // In a process of its own: the names stay.
  auto const fill = [] {
    static std::array<std::array<char, 24>, 300> names;
    int unnamed = 0;
    for (std::array<char, 24>& name : names) {
      std::snprintf(name.data(), name.size(), "op%td", &name - names.data());
      failure const f = failed(-ENOENT, name.data(), 5);
      CHILD_EXPECTS(f.object() == "descriptor 5");
      unnamed += *f.operation() == 0;
      CHILD_EXPECTS(*f.operation() == 0 || std::strcmp(f.operation(), name.data()) == 0);
    }
    return CHILD_MEETS(unnamed >= 300 - 255 && unnamed < 300 - 200);
  };
  EXPECT_EXIT(std::_Exit(fill()), ::testing::ExitedWithCode(0), "");
}

// ---- operations -------------------------------------------------------------------------------------------

class failures : public test::on_each_driver {
 protected:
  [[nodiscard]] unio::connect_options here() const { return {.multiplexer = m_.get()}; }
};

TEST_P(failures, of_connecting_name_the_address) {
  endpoint const e = free_address();
  std::string const expected = "connect " + to_string(e) + ": " + refused;
  EXPECT_EQ(socket_handle::connected_to(e).error().message(), expected);
  EXPECT_EQ(socket_handle::connected_to(e, here()).error().message(), expected);
  auto body = [](endpoint to) -> unio::task<failure> {
    io_result<socket_handle> const s = co_await socket_handle::co_connected_to(to);
    co_return s.error();
  };
  EXPECT_EQ(unio::run(*m_, body(e)).message(), expected);
  socket_handle s = socket_handle::create(e.family()).value();
  s.set_multiplexer(m_.get());
  EXPECT_EQ(s.connect(e).error().message(), expected);
}

TEST_P(failures, of_connecting_name_ipv6_and_unix_addresses) {
  EXPECT_EQ(socket_handle::connected_to(unio::parse_endpoint("[::1]:1").value(), here()).error().object(),
            "[::1]:1");
  test::temporary_directory const directory;
  std::string const path = directory / "nobody";
  failure const f = socket_handle::connected_to(endpoint::unix_path(path).value(), here()).error();
  EXPECT_EQ(f.object(), "unix:" + path);
  EXPECT_EQ(f, std::errc::no_such_file_or_directory);
}

TEST_P(failures, of_reading_and_writing_name_the_descriptor) {
  unio::anonymous_pipe p = make_pipe();
  std::string const reader = descriptor(p.reader);
  std::array<std::byte, 4> bytes{};
  EXPECT_EQ(p.reader.try_read(unio::mutable_buffer(bytes)).error(), condition::would_block);
  EXPECT_EQ(p.reader.try_read_for(unio::mutable_buffer(bytes), std::chrono::milliseconds(1)).error().object(),
            reader);
  auto body = [](unio::pipe_handle& from, unio::mutable_buffer into) -> unio::task<failure> {
    auto const got = co_await from.try_co_read_for(into, std::chrono::milliseconds(1));
    co_return got.error();
  };
  failure const late = unio::run(*m_, body(p.reader, unio::mutable_buffer(bytes)));
  EXPECT_EQ(late, condition::timed_out);
  EXPECT_EQ(late.message(), "read " + reader + ": " + late.code().message());
  p.reader.close().value();
  failure const broken = p.writer.write(unio::const_buffer(bytes)).error();
  EXPECT_EQ(broken.message(), "write " + descriptor(p.writer) + ": Broken pipe");
}

TEST_P(failures, of_names_name_the_path) {
  test::temporary_directory const directory;
  path_handle base = path_handle::path(directory.path()).value();
  base.set_multiplexer(m_.get());
  std::string const none = ": No such file or directory";
  EXPECT_EQ(unio::file_handle::file(base, "a/b").error().message(), "open a/b" + none);
  EXPECT_EQ(unio::unlink(base, "gone", unio::unlink_mode::file).error().message(), "unlink gone" + none);
  EXPECT_EQ(unio::rename(base, "gone", base, "there", unio::relink_mode::replace).error().message(),
            "rename gone to there" + none);
  EXPECT_EQ(unio::stat(base, "gone").error().message(), "stat gone" + none);
  auto body = [](path_handle const& from) -> unio::task<failure> {
    auto const got = co_await unio::co_unlink(from, "gone", unio::unlink_mode::file);
    co_return got.error();
  };
  EXPECT_EQ(unio::run(*m_, body(base)).message(), "unlink gone" + none);
  EXPECT_EQ(unio::file_handle::file({}, "").error().message(), "open ''" + none);
  EXPECT_EQ(unio::unlink({}, "", unio::unlink_mode::file).error().message(), "unlink ''" + none);
  EXPECT_EQ(unio::rename(base, "gone", base, "", unio::relink_mode::replace).error().message(),
            "rename gone to ''" + none);
}

UNIO_ON_BOTH_DRIVERS(failures);

TEST(failures_of_calls, name_the_address_or_the_program) {
  endpoint const e = endpoint::ipv4_loopback(0);
  auto const taken = unio::listening_socket_handle::listen(e).value();
  endpoint const there = taken.local_endpoint().value();
  unio::listen_options alone;
  EXPECT_EQ(unio::listening_socket_handle::listen(there, alone).error().message(),
            "listen " + to_string(there) + ": Address already in use");
  socket_handle s = socket_handle::create(there.family()).value();
  EXPECT_EQ(s.bind(there).error().message(), "bind " + to_string(there) + ": Address already in use");
  EXPECT_EQ(unio::process_handle::launch("/no/such/program", {"x"}).error().message(),
            "launch /no/such/program: No such file or directory");
}

TEST(failure, of_what_would_block_or_was_canceled_keeps_no_object) {
  failure const before = on("kept");
  unio::anonymous_pipe p = unio::pipe_handle::anonymous().value();
  std::array<std::byte, 4> bytes{};
  for (int i = 0; i != 300; ++i) {
    ASSERT_EQ(p.reader.try_read(unio::mutable_buffer(bytes)).error(), condition::would_block);
    ASSERT_EQ(p.reader.try_read_for(unio::mutable_buffer(bytes), std::chrono::nanoseconds(1)).error(),
              condition::timed_out);
    unio::async_connected refused_before_it_began(endpoint::ipv4_loopback(1));
    refused_before_it_began.refuse(-ECANCELED);
    ASSERT_EQ(refused_before_it_began.result().error(), condition::canceled);
  }
  EXPECT_EQ(before.object(), "kept");
}

} // namespace
