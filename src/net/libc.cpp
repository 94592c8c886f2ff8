// The C library's look-ups cannot be stopped, so no code waits for their threads: a job belongs to the caller
// and the thread together, and a thread is detached. A process that exits leaves them.
//
//   asked ─► queued ─► running ─► done: the event is set ─► the caller resumes
//              │          └─ the caller waits no more: the result is dropped
//              └─ the caller waits no more: it is not begun

#include "net/libc.hpp"

#include "core/failed_with.hpp"
#include "handle/sockets.hpp"
#include "net/wire.hpp"
#include "sys/calls.hpp"
#include "sys/fork.hpp"
#include "sys/threads.hpp"

#include <unio/sync.hpp>
#include <unio/when.hpp>

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace unio::inline v0_1::net {
namespace {

struct job {
  explicit job(std::string name, address_family f) : host(std::move(name)), family(f) {}
  explicit job(endpoint const& e) : address(e) {}

  std::string const host; // empty: the names of `address` are wanted
  address_family const family = address_family::unspecified;
  endpoint const address;
  endpoint_list addresses;
  std::vector<std::string> names;
  std::error_code error;
  std::atomic<bool> is_wanted{true};
  event done; // what is above is written before, and read after it
};

std::error_code error_of(int code) noexcept {
  switch (code) {
    case 0:
      return {};
    case EAI_NONAME:
      return resolve_error::no_such_name;
#ifdef EAI_NODATA
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
#endif
      return resolve_error::no_data;
    case EAI_AGAIN:
      return resolve_error::no_answer;
    case EAI_FAIL:
      return resolve_error::server_failed;
    case EAI_MEMORY:
      return std::make_error_code(std::errc::not_enough_memory);
    case EAI_SYSTEM:
      return {errno, std::system_category()};
    default:
      return resolve_error::libc_failed;
  }
}

struct free_addresses {
  void operator()(addrinfo* a) const noexcept { ::freeaddrinfo(a); }
};

void look_up(job& j) {
  if (j.host.empty()) {
    char name[NI_MAXHOST];
    j.error = error_of(::getnameinfo(static_cast<sockaddr const*>(j.address.data()), j.address.size(), name,
                                     sizeof(name), nullptr, 0, NI_NAMEREQD));
    if (!j.error) j.names.emplace_back(name);
    return;
  }
  addrinfo wanted{};
  wanted.ai_family = j.family == address_family::ipv4   ? AF_INET
                     : j.family == address_family::ipv6 ? AF_INET6
                                                        : AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM; // so that each address comes once
  addrinfo* made = nullptr;
  j.error = error_of(::getaddrinfo(j.host.c_str(), nullptr, &wanted, &made));
  if (j.error) return;
  std::unique_ptr<addrinfo, free_addresses> const found(made);
  for (addrinfo const* a = found.get(); a != nullptr; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    endpoint e;
    std::memcpy(e.data(), a->ai_addr, a->ai_addrlen);
    e.resize(a->ai_addrlen);
    j.addresses.push_back(e);
  }
  if (j.addresses.empty()) j.error = resolve_error::no_data;
}

// What it finds may need more memory than there is.
void look_up_or_fail(job& j) noexcept {
#if UNIO_HAS_EXCEPTIONS
  try {
    look_up(j);
  } catch (...) {
    j.error = std::make_error_code(std::errc::not_enough_memory);
  }
#else
  look_up(j);
#endif
}

// Of a process. Never destroyed: its threads may outlive main().
class threads {
 public:
  // A forked child has none of its parent's threads, and makes a new one of these.
  static threads& of_this_process() {
    static std::atomic<threads*> current{nullptr};
    threads* found = current.load(std::memory_order_acquire);
    while (found == nullptr || found->generation_ != sys::fork_generation()) {
      auto made = std::make_unique<threads>();
      if (current.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel))
        return *made.release();
    }
    return *found;
  }

  // 0, or why no thread could be started although there is none.
  int add(std::shared_ptr<job> j) {
    std::unique_lock held(lock_);
    if (queue_.size() >= enough_) forget_unwanted();
    queue_.push_back(std::move(j));
    if (idle_ >= queue_.size() || running_ == most_libc_threads) {
      held.unlock();
      news_.notify_one();
      return 0;
    }
    ++running_;
    int const e = sys::start_thread(
        [](void* self) -> void* {
          static_cast<threads*>(self)->run();
          return nullptr;
        },
        this);
    if (e == 0) return 0;
    --running_;
    if (running_ != 0) return 0; // another thread will do it
    queue_.pop_back();
    return e;
  }

 private:
  // While all threads hang, what is given up would stay here, and more come.
  void forget_unwanted() noexcept {
    std::erase_if(queue_, [](auto const& j) { return !j->is_wanted.load(std::memory_order_relaxed); });
    enough_ = std::max(least_enough, 2 * queue_.size());
  }

  void run() noexcept {
    std::unique_lock held(lock_);
    for (;;) {
      ++idle_;
      bool const works = news_.wait_for(held, std::chrono::seconds(5), [&] { return !queue_.empty(); });
      --idle_;
      if (!works) break;
      std::shared_ptr<job> const next = std::move(queue_.front());
      queue_.pop_front();
      held.unlock();
      if (next->is_wanted.load(std::memory_order_relaxed)) look_up_or_fail(*next);
      next->done.set();
      held.lock();
    }
    --running_;
  }

  unsigned const generation_ = sys::fork_generation();
  std::mutex lock_;
  std::condition_variable news_;
  std::deque<std::shared_ptr<job>> queue_;
  static constexpr std::size_t least_enough = 16;
  std::size_t enough_ = least_enough; // jobs that wait, before it is asked which are wanted
  std::size_t idle_ = 0;
  int running_ = 0;
};

// Waits for a job. If the wait is stopped or destroyed, the job is not wanted any more.
class wanted {
 public:
  explicit wanted(std::shared_ptr<job> j) noexcept : job_(std::move(j)) {}
  wanted(wanted const&) = delete;
  wanted& operator=(wanted const&) = delete;
  ~wanted() { job_->is_wanted.store(false, std::memory_order_relaxed); }
  [[nodiscard]] job& operator*() const noexcept { return *job_; }
  [[nodiscard]] std::shared_ptr<job> const& shared() const noexcept { return job_; }

 private:
  std::shared_ptr<job> job_;
};

task<std::error_code> done(wanted const& w, deadline d) {
  if (d.is_zero()) co_return std::error_code(EAGAIN, std::system_category());
  if (std::int64_t const r = sys::ask_libc(); r < 0)
    co_return detail::to_error_code(static_cast<int>(r)); // there is none in a simulation
  if (int const e = threads::of_this_process().add(w.shared()); e != 0)
    co_return std::error_code(e, std::system_category());
  result<void> const r = co_await timeout(d, (*w).done.co_wait());
  co_return r.has_value() ? (*w).error : r.error();
}

} // namespace

task<io_result<endpoint_list>> resolve_by_libc(std::string host, std::uint16_t port, address_family family,
                                               deadline d) {
  wanted const w(std::make_shared<job>(std::move(host), family));
  if (std::error_code const e = co_await done(w, d)) co_return detail::failed_with(e, "resolve", (*w).host);
  endpoint_list found = std::move((*w).addresses);
  for (endpoint& e : found) e = with_port(e, port);
  co_return found;
}

task<io_result<std::vector<std::string>>> names_by_libc(endpoint address, deadline d) {
  wanted const w(std::make_shared<job>(address));
  if (std::error_code const e = co_await done(w, d))
    co_return detail::failed_with(e, "names_of", detail::sockets::object_of(address));
  co_return std::move((*w).names);
}

} // namespace unio::net
