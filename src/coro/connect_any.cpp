// Happy Eyeballs, version 2 (RFC 8305), without the resolving: a group with a task for each attempt, and one
// that starts them. An exception that leaves one of them stops the others.
//
//   start an attempt ─► wait for news, or for the delay while there is another address ─► start the next …
//        ▲                        │ a failure: the next one begins at once
//        └────────────────────────┘ a success: the others are stopped and waited for

#include "handle/sockets.hpp"
#include "sys/short_lock.hpp"

#include <unio/connect_any.hpp>
#include <unio/detail/time_limit.hpp>
#include <unio/sync.hpp>
#include <unio/task_group.hpp>
#include <unio/when.hpp>

#include <cerrno>
#include <mutex>
#include <utility>

namespace unio::inline v0_1 {
namespace {

// The addresses in turns: of the first one's family, of the others, of the first one's … (RFC 8305 §4).
class in_turns {
 public:
  explicit in_turns(std::span<endpoint const> all) noexcept : all_(all) {}
  endpoint const* next() noexcept {
    std::size_t const turn = turn_;
    turn_ = 1 - turn_;
    endpoint const* const found = next_of(turn);
    return found != nullptr ? found : next_of(1 - turn);
  }

 private:
  // Of the first one's family (0), or of the others (1).
  endpoint const* next_of(std::size_t which) noexcept {
    for (std::size_t& i = at_[which]; i != all_.size();) {
      endpoint const& e = all_[i++];
      if ((e.family() == all_[0].family()) == (which == 0)) return &e;
    }
    return nullptr;
  }

  std::span<endpoint const> all_;
  std::size_t at_[2] = {0, 0};
  std::size_t turn_ = 0;
};

// How much an error says: what this host cannot reach at all says less than what another host has answered.
// That the time is over comes first; but the kernel has its own time for an address, and the same error.
int weight(std::error_code e, detail::time_limit limit) noexcept {
  if (!e || e == condition::canceled) return 0;
  if (e == condition::would_block || (e == condition::timed_out && limit.has_passed())) return 3;
  if (e.category() == std::system_category() &&
      (e.value() == ENETUNREACH || e.value() == EADDRNOTAVAIL || e.value() == EAFNOSUPPORT))
    return 1;
  return 2;
}

// What the attempts share. On an executor with several threads they may end at once.
class attempts_at_once {
 public:
  attempts_at_once(std::vector<connect_attempt>* report, detail::time_limit limit) noexcept
      : report_(report), limit_(limit) {}

  // Room for the report is made before the attempt starts: what follows does not throw.
  std::size_t begins(endpoint const& to) {
    std::lock_guard const held(lock_);
    ++running_;
    if (report_ == nullptr) return 0;
    report_->push_back({to, failure()});
    return report_->size() - 1;
  }
  void ends(std::size_t attempt, result<socket_handle> got) noexcept {
    {
      std::lock_guard const held(lock_);
      --running_;
      failure e = got.error();
      if (!e && won_) e = std::make_error_code(std::errc::operation_canceled);
      if (!e) {
        winner_ = std::move(*got);
        won_ = true;
      }
      if (int const says = weight(e, limit_); says > weight_) {
        error_ = e;
        weight_ = says;
      }
      if (report_ != nullptr) (*report_)[attempt].why = e;
    }
    news.set();
  } // a socket that came second is closed here

  [[nodiscard]] bool won() noexcept {
    std::lock_guard const held(lock_);
    return won_;
  }
  [[nodiscard]] bool is_idle() noexcept {
    std::lock_guard const held(lock_);
    return running_ == 0;
  }
  // After all have ended.
  [[nodiscard]] socket_handle& winner() noexcept { return winner_; }
  [[nodiscard]] failure error() const noexcept { return error_; }

  auto_reset_event news;

 private:
  sys::short_lock lock_;
  std::vector<connect_attempt>* report_;
  detail::time_limit const limit_;
  socket_handle winner_;
  failure error_;
  int weight_ = 0; // of that
  unsigned running_ = 0;
  bool won_ = false;
};

task<> attempt(attempts_at_once& r, endpoint const& to, deadline d, detail::connector connect, void* context,
               std::size_t number) {
  r.ends(number, co_await connect(context, to, d));
}

// Sets `is_late` if there was no time for an address.
task<> attempt_in_turns(attempts_at_once& r, task_group& attempts, std::span<endpoint const> to,
                        detail::time_limit limit, std::chrono::milliseconds delay, detail::connector connect,
                        void* context, bool& is_late) {
  environment const& here = co_await this_coro::environment;
  in_turns order(to);
  endpoint const* next = order.next();
  std::size_t number = 0;
  for (;;) {
    // News of an attempt that failed inside start() begin the next one now, not the one after.
    r.news.reset();
    if (r.won() || here.stop.stop_requested()) break;
    if (next != nullptr && number != 0 && limit.has_passed()) {
      next = nullptr; // it would fail at once
      is_late = true;
    }
    if (next != nullptr) {
      attempts.start(attempt(r, *next, limit.next(), connect, context, r.begins(*next)));
      next = order.next();
      ++number;
    }
    if (r.is_idle()) {
      if (next == nullptr) break;
      continue;
    }
    if (next != nullptr) {
      (void)co_await timeout(delay, r.news.co_wait());
    } else {
      (void)co_await r.news.co_wait();
    }
  }
  attempts.request_stop();
}

task<result<socket_handle>> connect_socket(void*, endpoint const& to, deadline d) {
  io_result<socket_handle> s = co_await socket_handle::co_connected_to(to, d);
  if (!s.has_value()) co_return s.error();
  co_return std::move(*s);
}

} // namespace

task<result<socket_handle>> detail::connect_first(std::span<endpoint const> to, deadline d,
                                                  connect_any_options options, connector connect,
                                                  void* context) {
  std::vector<connect_attempt> unwanted;
  if (options.attempts == nullptr && options.why != nullptr) options.attempts = &unwanted;
  if (options.attempts != nullptr) options.attempts->clear();
  if (to.empty()) {
    if (options.why != nullptr) *options.why = "there is no address to connect to";
    co_return failed(-EDESTADDRREQ, "connect");
  }

  environment const& here = co_await this_coro::environment;
  failure error;
  if (to.size() == 1) { // no other is to be stopped, so nothing is shared, and no group needed
    if (!here.stop.stop_requested()) {
      if (options.attempts != nullptr) options.attempts->push_back({to[0], failure()});
      result<socket_handle> alone = co_await connect(context, to[0], time_limit(d).next());
      if (alone.has_value()) co_return alone;
      if (options.attempts != nullptr) options.attempts->back().why = alone.error();
      if (alone.error() != condition::canceled) error = alone.error();
    }
  } else {
    time_limit const limit(d);
    attempts_at_once r(options.attempts, limit);
    task_group attempts(here);
    bool is_late = false;
    attempts.start(
        attempt_in_turns(r, attempts, to, limit, options.attempt_delay, connect, context, is_late));
    (void)co_await attempts.co_join();
    if (r.won()) co_return std::move(r.winner());
    error = is_late ? failed(-ETIMEDOUT, "connect") : r.error();
  }
  if (here.stop.stop_requested() || !error) error = failed(-ECANCELED, "connect");
  if (options.why != nullptr) *options.why = to_string(std::span<connect_attempt const>(*options.attempts));
  co_return error;
}

task<result<socket_handle>> co_connect_any(std::span<endpoint const> to, deadline d,
                                           connect_any_options options) {
  return detail::connect_first(to, d, options, &connect_socket, nullptr);
}

async_task<result<socket_handle>> async_connect_any(std::span<endpoint const> to, deadline d,
                                                    connect_any_options options) {
  return async_task<result<socket_handle>>(co_connect_any(to, d, options));
}

result<socket_handle> connect_any(std::span<endpoint const> to, deadline d, connect_any_options options) {
  return run(co_connect_any(to, d, options));
}

std::string to_string(std::span<connect_attempt const> attempts) {
  std::string text;
  for (connect_attempt const& a : attempts) {
    if (!a.why || a.why == condition::canceled) continue;
    if (!text.empty()) text += "; ";
    text += to_string(a.to) + ": " + a.why.code().message();
  }
  return text;
}

} // namespace unio
