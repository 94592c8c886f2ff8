#include "driver/choose.hpp"
#include "driver/this_thread.hpp"
#include "testing/backend.hpp"
#include "testing/thread_hooks.hpp"

namespace unio::inline v0_1::testing {

// Handles make themselves; a simulation makes them of descriptors that no system call returned.
struct handle_maker {
  template <class Handle, class... Arguments> static Handle make(io_multiplexer& m, Arguments... arguments) {
    Handle h(arguments...);
    h.set_multiplexer(&m);
    return h;
  }
};

namespace {

world* of_this_thread = nullptr;

// What is made on this thread runs on the simulated system. Another thread's is the real one's.
result<std::unique_ptr<driver::backend>> make_backend(bool for_other_threads) noexcept {
  if (!this_thread_is_simulated()) return std::unique_ptr<driver::backend>();
  if (for_other_threads && simulated_threads == nullptr) {
    (void)of_this_thread->refuse("a multiplexer of several threads");
    return std::make_error_code(std::errc::operation_not_supported);
  }
  return std::unique_ptr<driver::backend>(std::make_unique<simulated_backend>(*of_this_thread));
}

} // namespace

struct simulation::state {
  explicit state(simulation_options const& o) : w(o) {
    auto b = std::make_unique<simulated_backend>(w);
    backend = b.get();
    engine = std::make_unique<driver::engine>(std::move(b));
    of_this_thread = &w;
    driver::simulated_backend = make_backend;
    detail::shortcut = {engine.get(), sys::fork_generation()};
  }
  ~state() {
    detail::shortcut = own;
    driver::simulated_backend = nullptr;
    of_this_thread = nullptr;
  }

  template <class Handle, class... Arguments> Handle handle(int fd, Arguments... arguments) {
    backend->predict(*engine, fd);
    return handle_maker::make<Handle>(*engine, fd, arguments...);
  }

  detail::thread_shortcut const own = detail::shortcut;
  world w; // first: it answers system calls until the multiplexer has gone
  simulated_backend* backend = nullptr;
  std::unique_ptr<driver::engine> engine;
};

simulation::simulation(simulation_options options) : state_(std::make_unique<state>(options)) {}
simulation::~simulation() = default;

io_multiplexer& simulation::multiplexer() noexcept { return *state_->engine; }

anonymous_pipe simulation::pipe() {
  int writer = -1;
  int const reader = state_->w.open_pipe(writer);
  return {state_->handle<pipe_handle>(reader, handle_kind::pipe),
          state_->handle<pipe_handle>(writer, handle_kind::pipe)};
}

socket_pair simulation::stream_pair() {
  int second = -1;
  int const first = state_->w.open_pair(second);
  return {state_->handle<socket_handle>(first), state_->handle<socket_handle>(second)};
}

file_handle simulation::file(std::span<std::byte const> contents) {
  return state_->handle<file_handle>(state_->w.open_file(contents), handle_kind::file, handle::caching::all,
                                     handle::flag::none);
}

void simulation::put_file(path_view path, std::span<std::byte const> contents) {
  std::string_view const whole(path.c_str(), path.size());
  UNIO_EXPECTS(whole.starts_with('/') && !whole.ends_with('/'), "the absolute path of a file");
  std::size_t const name = whole.rfind('/') + 1;
  std::shared_ptr<node> const in = state_->w.directory(whole.substr(0, name));
  std::shared_ptr<node> const made = state_->w.make_node(node_kind::file, 0644);
  made->file->bytes.assign(contents.begin(), contents.end());
  world::put(in, std::string(whole.substr(name)), made);
}

result<std::vector<std::byte>> simulation::file_contents(path_view path) const {
  world::place at;
  std::int64_t r = state_->w.locate(-1, path.c_str(), at);
  if (r >= 0 && at.node == nullptr) r = -ENOENT;
  if (r >= 0 && at.node->file == nullptr) r = -EISDIR;
  if (r < 0) return detail::to_error_code(static_cast<int>(r));
  return at.node->file->bytes;
}

listening_socket_handle simulation::listener() {
  return state_->handle<listening_socket_handle>(state_->w.open_listener());
}

socket_handle simulation::connect_to(listening_socket_handle const& l) {
  UNIO_EXPECTS(state_->w.owns(l.native_handle()), "a simulated listener");
  return state_->handle<socket_handle>(state_->w.open_connection(l.native_handle()));
}

datagram_handle simulation::datagrams(endpoint const& at) {
  UNIO_EXPECTS(at.family() == address_family::ipv4 || at.family() == address_family::ipv6,
               "an IPv4 or IPv6 address");
  UNIO_EXPECTS(!state_->w.is_taken(at), "an address that no other simulated socket has");
  return state_->handle<datagram_handle>(state_->w.open_datagrams(at), at.family());
}

void simulation::set_route(endpoint const& host, route r) { state_->w.set_route(host, r); }

std::chrono::steady_clock::time_point simulation::now() const noexcept {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(state_->w.now()));
}

void simulation::advance(std::chrono::nanoseconds d) {
  std::int64_t const until = state_->w.moment(std::max<std::int64_t>(0, d.count()));
  do {
    if (state_->w.sleep_until(until))
      while (std::function<void()> f = state_->w.take_event()) (void)state_->engine->post(std::move(f));
  } while (state_->w.now() < until);
}

void simulation::after(std::chrono::nanoseconds d, std::function<void()> f) {
  state_->w.add_event(state_->w.moment(std::max<std::int64_t>(0, d.count())), std::move(f));
}

void simulation::fail(std::string_view call, int nth, int error) {
  UNIO_EXPECTS(nth >= 1 && error > 0, "the n-th call, counted from 1, fails with an errno");
  bool const known = state_->w.add_fault(call, nth, error);
  UNIO_EXPECTS(known, "not the name of a system call that is simulated");
}

std::uint64_t simulation::calls(std::string_view call) const noexcept {
  std::uint64_t n = 0;
  bool const known = state_->w.count_of(call, n);
  UNIO_EXPECTS(known, "not the name of a system call that is simulated");
  return n;
}

std::size_t simulation::open_descriptors() const noexcept { return state_->w.open_descriptors(); }
std::string const& simulation::refused() const noexcept { return state_->w.refused(); }
std::uint64_t simulation::seed() const noexcept { return state_->w.options.seed; }
simulation_options const& simulation::options() const noexcept { return state_->w.options; }
std::uint64_t simulation::fingerprint() const noexcept { return state_->w.fingerprint(); }
std::string const& simulation::trace() const noexcept { return state_->w.trace(); }

} // namespace unio::testing
