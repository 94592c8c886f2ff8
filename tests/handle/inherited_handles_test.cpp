// inherited_handles.hpp: descriptors that were passed when the process was executed.
//
// A child of fork stands for the executed process where the environment alone matters; one test executes this
// program again, and one has systemd-socket-activate do it.

#include "support/child.hpp"
#include "support/descriptors.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// Puts duplicates where a service manager puts them. They are not close-on-exec.
void pass(std::vector<int> const& fds) {
  std::vector<int> high;
  for (int const fd : fds) high.push_back(::fcntl(fd, F_DUPFD, 500));
  for (std::size_t i = 0; i < high.size(); ++i) ::dup2(high[i], 3 + static_cast<int>(i));
  for (int const fd : high) ::close(fd);
}

void say(char const* fds, char const* names, int pid = ::getpid()) {
  ::setenv("LISTEN_PID", std::to_string(pid).c_str(), 1);
  if (fds != nullptr) ::setenv("LISTEN_FDS", fds, 1);
  if (names != nullptr) ::setenv("LISTEN_FDNAMES", names, 1);
}

bool is_said() {
  return std::getenv("LISTEN_PID") != nullptr || std::getenv("LISTEN_FDS") != nullptr ||
         std::getenv("LISTEN_FDNAMES") != nullptr;
}

struct passed {
  listening_socket_handle listener = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  datagram_handle datagrams = datagram_handle::bind(endpoint::ipv4_loopback(0)).value();
  unio::socket_pair pair = socket_handle::pair().value();
  unio::anonymous_pipe pipe = unio::pipe_handle::anonymous().value();
  void pass_all() const {
    pass({listener.native_handle(), datagrams.native_handle(), pair.first.native_handle(),
          pipe.reader.native_handle()});
  }
};

TEST(inherited_handles, are_taken_by_name_as_what_they_are) {
  passed const p;
  endpoint const at = p.listener.local_endpoint().value();
  test::expect_in_child([&] {
    p.pass_all();
    say("4", "web:log:peer:fifo");
    auto all = inherited_handles::take_over();
    CHILD_EXPECTS(all && all->size() == 4 && !all->empty());
    CHILD_EXPECTS(!is_said());
    for (int fd = 3; fd < 7; ++fd) CHILD_EXPECTS(is_close_on_exec(fd));
    CHILD_EXPECTS(all->name(0) == "web" && all->find("fifo") == 3);
    CHILD_EXPECTS(all->find("none") == inherited_handles::none);
    // What is something else stays.
    CHILD_EXPECTS(all->take_stream(0).error() == std::errc::wrong_protocol_type);
    CHILD_EXPECTS(all->take_listener(1).error() == std::errc::wrong_protocol_type);
    CHILD_EXPECTS(all->take_listener(2).error() == std::errc::invalid_argument);
    CHILD_EXPECTS(all->take_datagrams(3).error() == std::errc::not_a_socket);
    CHILD_EXPECTS(all->take(1).error() == std::errc::wrong_protocol_type);
    auto listener = all->take_listener(all->find("web"));
    auto datagrams = all->take_datagrams(all->find("log"));
    auto stream = all->take_stream(all->find("peer"));
    auto pipe = all->take(all->find("fifo"));
    CHILD_EXPECTS(listener && datagrams && stream && pipe);
    CHILD_EXPECTS(all->find("web") == inherited_handles::none); // it was taken
    CHILD_EXPECTS(all->take_listener(0).error() == std::errc::bad_file_descriptor);
    CHILD_EXPECTS(all->take_listener(9).error() == std::errc::bad_file_descriptor);
    CHILD_EXPECTS(listener->native_handle() == 3 && listener->local_endpoint().value() == at);
    return CHILD_MEETS(stream->write(unio::const_buffer("x", 1)));
  });
}

TEST(inherited_handles, that_are_not_taken_are_closed) {
  passed const p;
  test::expect_in_child([&] {
    p.pass_all();
    say("4", nullptr);
    int released = -1;
    {
      auto all = inherited_handles::take_over();
      CHILD_EXPECTS(all && all->name(2) == "unknown");
      released = all->release(2);
      CHILD_EXPECTS(released == 5 && all->release(2) == -1 && all->release(9) == -1);
      inherited_handles const moved = std::move(*all);
      CHILD_EXPECTS(moved.size() == 4 && all->empty());
    }
    for (int const fd : {3, 4, 6}) CHILD_EXPECTS(::fcntl(fd, F_GETFD) < 0);
    return CHILD_MEETS(::fcntl(released, F_GETFD) >= 0);
  });
}

TEST(inherited_handles, are_none_where_they_are_anothers_or_nothing_is_said) {
  passed const p;
  test::expect_in_child([&] {
    ::unsetenv("LISTEN_PID");
    ::unsetenv("LISTEN_FDS");
    auto none = inherited_handles::take_over();
    CHILD_EXPECTS(none && none->empty());
    p.pass_all();
    say("4", "a:b:c:d", ::getppid());
    none = inherited_handles::take_over(inherited_handles::environment::keep);
    CHILD_EXPECTS(none && none->empty() && is_said());
    none = inherited_handles::take_over();
    CHILD_EXPECTS(none && none->empty() && !is_said());
    CHILD_EXPECTS(!is_close_on_exec(3)); // they were left alone
    say("0", "");
    none = inherited_handles::take_over();
    return CHILD_MEETS(none && none->empty());
  });
}

TEST(inherited_handles, that_are_said_wrongly_are_an_error_that_names_the_variable) {
  struct {
    char const* pid; // or null: this process
    char const* fds;
    char const* names;
    char const* reason;
  } const cases[] = {
      {"x", "1", nullptr, "LISTEN_PID is not"},
      {"", "1", nullptr, "LISTEN_PID is not"},
      {"-1", "1", nullptr, "LISTEN_PID is not"},
      {"0", "1", nullptr, "LISTEN_PID is not"},
      {"12345678901234567890", "1", nullptr, "LISTEN_PID is not"},
      {nullptr, "", nullptr, "LISTEN_FDS is not"},
      {nullptr, "-1", nullptr, "LISTEN_FDS is not"},
      {nullptr, "+1", nullptr, "LISTEN_FDS is not"},
      {nullptr, "1 ", nullptr, "LISTEN_FDS is not"},
      {nullptr, "01", nullptr, "LISTEN_FDS is not"},
      {nullptr, "2147483648", nullptr, "LISTEN_FDS is not"},
      {nullptr, "99999999999999999999", nullptr, "LISTEN_FDS is not"},
      {nullptr, "1", "a:b", "LISTEN_FDNAMES has 2 names, but LISTEN_FDS says 1"},
      {nullptr, "2", "a", "LISTEN_FDNAMES has 1 names, but LISTEN_FDS says 2"},
      {nullptr, "0", "a", "LISTEN_FDNAMES has 1 names, but LISTEN_FDS says 0"},
      {nullptr, "900", nullptr, "is not open"},
  };
  passed const p;
  for (auto const& c : cases) {
    EXPECT_EQ(test::in_child([&] {
                p.pass_all();
                say(c.fds, c.names);
                if (c.pid != nullptr) ::setenv("LISTEN_PID", c.pid, 1);
                std::string why;
                auto const all = inherited_handles::take_over(inherited_handles::environment::remove, &why);
                CHILD_EXPECTS(!all);
                CHILD_EXPECTS(why.find(c.reason) != std::string::npos);
                CHILD_EXPECTS(!is_said());
                return CHILD_MEETS(::fcntl(3, F_GETFD) >= 0 && !is_close_on_exec(3)); // nothing was changed
              }),
              0)
        << c.reason << ": " << (c.fds != nullptr ? c.fds : "");
  }
}

// ---- executed --------------------------------------------------------------------------------------------

constexpr char const* mark = "UNIO_TEST_ACTIVATED";

// What the executed program does: it serves one connection, of the first listener, with its names.
void serve() {
  std::string why;
  auto all = inherited_handles::take_over(inherited_handles::environment::remove, &why);
  ASSERT_TRUE(all) << why;
  std::string names;
  for (std::size_t i = 0; i < all->size(); ++i) names.append(all->name(i)).append(" ");
  auto listener = all->take_listener(0);
  ASSERT_TRUE(listener) << listener.error().message();
  auto connection = listener->accept(20s);
  ASSERT_TRUE(connection) << connection.error().message();
  ASSERT_TRUE(connection->write(std::string_view(names)));
}

std::vector<std::string> this_program(char const* test) {
  char path[4096] = {};
  if (::readlink("/proc/self/exe", path, sizeof path - 1) < 0) return {};
  return {path, std::string("--gtest_filter=inherited_handles.") + test};
}

[[noreturn]] void execute(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  int const null = ::open("/dev/null", O_WRONLY);
  ::dup2(null, 1);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

std::string read_all(socket_handle& s) {
  std::string all;
  char memory[64];
  while (auto const got = s.read(memory, 20s)) {
    if (got->bytes() == 0) break;
    all.append(memory, got->bytes());
  }
  return all;
}

int end_of(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(inherited_handles, come_through_execve) {
  if (std::getenv(mark) != nullptr) return serve();
  passed const p;
  pid_t const child = ::fork();
  if (child == 0) {
    p.pass_all();
    ::alarm(60);
    ::setenv(mark, "1", 1);
    say("4", "web:log:peer:fifo");
    execute(this_program("come_through_execve"));
  }
  auto client = socket_handle::connected_to(p.listener.local_endpoint().value(), 20s).value();
  EXPECT_EQ(read_all(client), "web log peer fifo ");
  EXPECT_EQ(end_of(child), 0);
}

TEST(inherited_handles, come_from_systemd_socket_activate) {
  if (std::getenv(mark) != nullptr) return serve();
  std::string const activate = "/usr/bin/systemd-socket-activate";
  if (::access(activate.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << activate;
  std::string const name = "@unio-activated-" + std::to_string(::getpid());
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::setenv(mark, "1", 1);
    ::dup2(::open("/dev/null", O_WRONLY), 2);
    std::vector<std::string> arguments = {activate, "-l", name, "--fdname=web", "-E", mark, "--"};
    for (std::string& a : this_program("come_from_systemd_socket_activate"))
      arguments.push_back(std::move(a));
    execute(arguments);
  }
  auto const until = std::chrono::steady_clock::now() + 20s;
  endpoint const at = endpoint::unix_path(name).value();
  unio::result<socket_handle> client = socket_handle::connected_to(at, 1s);
  while (!client && std::chrono::steady_clock::now() < until) {
    ::usleep(10'000); // it does not listen yet
    client = socket_handle::connected_to(at, 1s);
  }
  ASSERT_TRUE(client) << client.error().message();
  EXPECT_EQ(read_all(*client), "web ");
  EXPECT_EQ(end_of(child), 0);
}

} // namespace
