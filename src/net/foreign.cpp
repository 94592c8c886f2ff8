// unio/extend/foreign_names.hpp: look-ups for loops that are not unio's.
//
//   text of an address, no host ─► getaddrinfo(3), which then asks no server
//   name ─► the service, by getaddrinfo(3) ─► the host, by a resolver ─► both together
//
// All look-ups of the process are coroutines on one thread, so that a loop needs nothing of unio's to wait.
// It is a thread of its own because a loop may hand its waiting from thread to thread, and an engine stays.

#include "core/failed_with.hpp"
#include "net/wire.hpp"
#include "sys/fork.hpp"

#include <unio/extend/foreign_names.hpp>
#include <unio/resolver.hpp>
#include <unio/run.hpp>
#include <unio/thread_pool.hpp>

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace unio::inline v0_1 {
namespace {

using namespace net;

struct free_list {
  void operator()(addrinfo* a) const noexcept { ::freeaddrinfo(a); }
};
using libc_list = std::unique_ptr<addrinfo, free_list>;

struct question {
  explicit question(foreign_question const& q)
      : host(q.host != nullptr ? q.host : ""),
        service(q.service != nullptr ? q.service : ""),
        flags(q.flags),
        family(q.family),
        type(q.type),
        protocol(q.protocol),
        is_of_address(q.address != nullptr) {
    if (!is_of_address) return;
    std::memcpy(address.data(), q.address, q.address_size);
    address.resize(q.address_size);
  }
  std::string host, service;
  int flags, family, type, protocol;
  bool is_of_address;
  endpoint address;
};

struct found_answer final : foreign_answer {
  found_answer() = default;
  found_answer(found_answer const&) = delete;
  found_answer& operator=(found_answer const&) = delete;
  ~found_answer() override = default;

  static std::unique_ptr<found_answer> failed(int error, int system_error = 0) {
    auto a = std::make_unique<found_answer>();
    a->error = error;
    a->system_error = system_error;
    return a;
  }
  static std::unique_ptr<found_answer> of(std::error_code e);
  static std::unique_ptr<found_answer> of(libc_list found) {
    auto a = std::make_unique<found_answer>();
    a->libc = std::move(found);
    a->first = a->libc.get();
    return a;
  }

  libc_list libc;
  std::vector<addrinfo> entries;
  endpoint_list addresses; // of the entries
  char names[2][NI_MAXHOST] = {};
};

std::unique_ptr<found_answer> found_answer::of(std::error_code e) {
  if (e.category() == resolve_category()) {
    switch (static_cast<resolve_error>(e.value())) {
      case resolve_error::no_such_name:
      case resolve_error::no_data:
      case resolve_error::invalid_name:
        return failed(EAI_NONAME);
      case resolve_error::server_failed:
      case resolve_error::refused:
      case resolve_error::no_answer:
        return failed(EAI_AGAIN); // as the C library, which asks again of a server that refuses
      case resolve_error::malformed_answer:
      case resolve_error::libc_failed:
        break;
    }
    return failed(EAI_FAIL);
  }
  if (e == condition::canceled) return failed(EAI_SYSTEM, ECANCELED);
  if (e == std::errc::not_enough_memory) return failed(EAI_MEMORY);
  std::error_condition const c = e.default_error_condition();
  return failed(EAI_SYSTEM, c.category() == std::generic_category() ? c.value() : EIO);
}

// What getaddrinfo(3) says to a text of an address, or none. It asks no server.
int ask_libc(question const& q, char const* host, int flags, int family, libc_list& found) {
  addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_family = family;
  hints.ai_socktype = q.type;
  hints.ai_protocol = q.protocol;
  addrinfo* made = nullptr;
  int const r = ::getaddrinfo(host, q.service.empty() ? nullptr : q.service.c_str(), &hints, &made);
  if (r == 0) found.reset(made);
  return r;
}

// The answer to what needs no server. Null: there is a name to look up.
std::unique_ptr<found_answer> without_servers(question const& q) {
  libc_list found;
  bool const is_text = q.host.empty() || (q.flags & AI_NUMERICHOST) != 0;
  int const flags = q.host.empty() ? q.flags : q.flags | AI_NUMERICHOST;
  int const r = ask_libc(q, q.host.empty() ? nullptr : q.host.c_str(), flags, q.family, found);
  if (r == 0) return found_answer::of(std::move(found));
  if (r != EAI_NONAME || is_text) return found_answer::failed(r, errno);
  return nullptr;
}

// Which families AI_ADDRCONFIG leaves: those of which this host has an address that is no loopback. None has
// any: all, as in the C library.
struct families {
  bool four = false, six = false;
};
families configured() noexcept {
  families f;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {.four = true, .six = true};
  for (ifaddrs const* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    if (i->ifa_addr->sa_family == AF_INET) {
      sockaddr_in a;
      std::memcpy(&a, i->ifa_addr, sizeof a);
      f.four = f.four || a.sin_addr.s_addr != htonl(INADDR_LOOPBACK);
    } else if (i->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 a;
      std::memcpy(&a, i->ifa_addr, sizeof a);
      f.six = f.six || !IN6_IS_ADDR_LOOPBACK(&a.sin6_addr);
    }
  }
  ::freeifaddrs(all);
  return f;
}

// Which addresses to ask for. Nothing: there can be none.
std::optional<address_family> wanted_family(question const& q, bool maps) noexcept {
  families const f = (q.flags & AI_ADDRCONFIG) != 0 ? configured() : families{.four = true, .six = true};
  bool const knows = f.four || f.six;
  if (q.family == AF_INET) return knows && !f.four ? std::nullopt : std::optional(address_family::ipv4);
  if (q.family == AF_INET6) {
    if (knows && !f.six) return std::nullopt;
    return maps ? address_family::unspecified : address_family::ipv6;
  }
  if (!knows || (f.four && f.six)) return address_family::unspecified;
  return f.four ? address_family::ipv4 : address_family::ipv6;
}

// ::ffff:192.0.2.1
endpoint mapped(endpoint const& four) {
  sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  a.sin6_addr.s6_addr[10] = a.sin6_addr.s6_addr[11] = 0xff;
  std::memcpy(a.sin6_addr.s6_addr + 12, address_bytes(four).data(), 4);
  endpoint e;
  std::memcpy(e.data(), &a, sizeof a);
  e.resize(sizeof a);
  return e;
}

// AI_V4MAPPED: where there is no IPv6 address; with AI_ALL those too.
void map(endpoint_list& found, int flags) {
  auto const is_four = [](endpoint const& e) { return e.family() == address_family::ipv4; };
  bool const has_six = std::ranges::any_of(found, std::not_fn(is_four));
  if (has_six && (flags & AI_ALL) == 0) std::erase_if(found, is_four);
  for (endpoint& e : found)
    if (is_four(e)) e = mapped(e);
}

task<std::unique_ptr<found_answer>> look_up_host(question const& q, resolver& names) {
  if (auto known = without_servers(q)) co_return known;
  // Any address, for the ports and types that belong to the service.
  libc_list services;
  int const flags = (q.flags & AI_NUMERICSERV) | AI_NUMERICHOST;
  if (int const r = ask_libc(q, "127.0.0.1", flags, AF_INET, services); r != 0)
    co_return found_answer::failed(r, errno);
  bool const maps = q.family == AF_INET6 && (q.flags & AI_V4MAPPED) != 0;
  auto const family = wanted_family(q, maps);
  if (!family.has_value()) co_return found_answer::failed(EAI_NONAME);
  auto found = co_await names.co_resolve(q.host, 0, {}, {.family = *family});
  if (!found.has_value()) co_return found_answer::of(found.error().code());
  if (maps) map(*found, q.flags);

  auto made = std::make_unique<found_answer>();
  for (endpoint const& e : *found) {
    for (addrinfo const* s = services.get(); s != nullptr; s = s->ai_next) {
      sockaddr_in service;
      std::memcpy(&service, s->ai_addr, sizeof service);
      made->addresses.push_back(with_port(e, ntohs(service.sin_port)));
      made->entries.push_back(*s);
    }
  }
  for (std::size_t i = 0; i != made->entries.size(); ++i) {
    endpoint& e = made->addresses[i];
    addrinfo& entry = made->entries[i];
    entry.ai_addr = static_cast<sockaddr*>(e.data());
    entry.ai_addrlen = static_cast<socklen_t>(e.size());
    entry.ai_family = entry.ai_addr->sa_family;
    entry.ai_canonname = nullptr;
    entry.ai_next = i + 1 != made->entries.size() ? &made->entries[i + 1] : nullptr;
  }
  made->first = made->entries.data();
  co_return made;
}

// As getnameinfo(3) without flags: an address that has no name is the name.
task<std::unique_ptr<found_answer>> look_up_names(question const& q, resolver& names) {
  auto made = std::make_unique<found_answer>();
  made->host = made->names[0];
  made->service = made->names[1];
  int const flags = NI_NUMERICHOST | (q.type == SOCK_DGRAM ? NI_DGRAM : 0);
  if (int const r =
          ::getnameinfo(static_cast<sockaddr const*>(q.address.data()), q.address.size(), made->names[0],
                        sizeof made->names[0], made->names[1], sizeof made->names[1], flags);
      r != 0)
    co_return found_answer::failed(r, errno);
  auto const found = co_await names.co_names_of(q.address);
  if (found.has_value() && !found->empty()) {
    std::string const& name = found->front();
    made->names[0][name.copy(made->names[0], sizeof made->names[0] - 1)] = '\0';
  } else if (!found.has_value()) {
    auto failure = found_answer::of(found.error().code());
    if (failure->error != EAI_NONAME) co_return failure;
  }
  co_return made;
}

// ── asking ─────────────────────────────────────────────────────────────────────────────────────────────────

struct look_up final : foreign_look_up {
  look_up(foreign_question const& q, std::shared_ptr<foreign_asker> a) : what(q), asker(std::move(a)) {}
  look_up(look_up const&) = delete;
  look_up& operator=(look_up const&) = delete;
  ~look_up() override = default;
  // A child of fork has no thread to stop, and what it shares with its parent goes on.
  void cancel() noexcept override {
    if (generation == sys::fork_generation()) stop.request_stop();
  }

  question const what;
  std::shared_ptr<foreign_asker> asker;
  unsigned const generation = sys::fork_generation();
  stop_source stop;
};

task<std::unique_ptr<found_answer>> run_look_up(look_up const& l, resolver& names) {
  return l.what.is_of_address ? look_up_names(l.what, names) : look_up_host(l.what, names);
}

// What leaves a look-up is std::bad_alloc.
std::unique_ptr<found_answer> outcome(task_outcome<std::unique_ptr<found_answer>>&& r) noexcept {
  return r.has_value() ? std::move(*r) : nullptr;
}

/// Who waits for an answer on a thread that blocks.
class waiting_thread final : public foreign_asker {
 public:
  waiting_thread() = default;
  waiting_thread(waiting_thread const&) = delete;
  waiting_thread& operator=(waiting_thread const&) = delete;
  ~waiting_thread() override = default;
  void answered(std::unique_ptr<foreign_answer> a) noexcept override {
    std::scoped_lock const hold(lock_);
    answer_ = std::move(a);
    is_there_ = true;
    news_.notify_one();
  }
  std::unique_ptr<foreign_answer> wait() {
    std::unique_lock hold(lock_);
    news_.wait(hold, [&] { return is_there_; });
    if (answer_ == nullptr) answer_ = found_answer::failed(EAI_MEMORY);
    return std::move(answer_);
  }

 private:
  std::mutex lock_;
  std::condition_variable news_;
  std::unique_ptr<foreign_answer> answer_;
  bool is_there_ = false;
};

class names_of_net final : public foreign_names {
 public:
  constexpr names_of_net() noexcept = default;
  void say_so() noexcept { is_linked(this); }

  [[nodiscard]] bool can_answer(foreign_question const& q) const noexcept override {
    constexpr int known = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV | AI_V4MAPPED | AI_ALL | AI_ADDRCONFIG;
    if (q.address != nullptr)
      return q.address_size != 0 && q.address_size <= endpoint::capacity && is_known(q.address->sa_family);
    return (q.flags & ~known) == 0 && (q.family == AF_UNSPEC || is_known(q.family));
  }
  std::shared_ptr<foreign_look_up> ask(foreign_question const& q,
                                       std::shared_ptr<foreign_asker> asker) override {
    auto l = std::make_shared<look_up>(q, std::move(asker));
    thread_of_process& t = thread();
    auto counted = std::make_shared<asking>(t);
    // seq_cst: either this sees what use() has stored, or that sees that this was counted.
    resolver* const chosen = resolver_.load(std::memory_order_seq_cst);
    if (chosen == nullptr) counted.reset();
    resolver& names = chosen != nullptr ? *chosen : resolver::of_the_system();
    async_run(
        t.pool.executor(), run_look_up(*l, names),
        [l, counted = std::move(counted)](task_outcome<std::unique_ptr<found_answer>> r) {
          std::exchange(l->asker, nullptr)->answered(outcome(std::move(r)));
        },
        run_options{.stop = l->stop.get_token()});
    return l;
  }
  std::unique_ptr<foreign_answer> answer(foreign_question const& q) override {
    if (q.address == nullptr)
      if (std::unique_ptr<foreign_answer> known = without_servers(question(q))) return known;
    auto const waiting = std::make_shared<waiting_thread>();
    ask(q, waiting);
    return waiting->wait();
  }
  void use(resolver* names) noexcept override {
    resolver_.store(names, std::memory_order_seq_cst);
    thread_of_process* const t = thread_.load(std::memory_order_acquire);
    if (t == nullptr || t->generation != sys::fork_generation()) return;
    for (int n; (n = t->asking.load(std::memory_order_seq_cst)) != 0;)
      t->asking.wait(n, std::memory_order_relaxed);
  }

 private:
  static bool is_known(int family) noexcept { return family == AF_INET || family == AF_INET6; }

  struct thread_of_process {
    unsigned const generation = sys::fork_generation();
    std::atomic<int> asking{0}; // look-ups of a chosen resolver
    thread_pool pool{1};
  };
  class asking {
   public:
    explicit asking(thread_of_process& t) noexcept : thread_(t) {
      t.asking.fetch_add(1, std::memory_order_seq_cst);
    }
    asking(asking const&) = delete;
    asking& operator=(asking const&) = delete;
    ~asking() {
      if (thread_.asking.fetch_sub(1, std::memory_order_seq_cst) == 1) thread_.asking.notify_all();
    }

   private:
    thread_of_process& thread_;
  };
  // Never destroyed: it may run while static objects end. A forked child has not its parent's.
  thread_of_process& thread() {
    thread_of_process* found = thread_.load(std::memory_order_acquire);
    if (found != nullptr && found->generation == sys::fork_generation()) return *found;
    auto made = std::make_unique<thread_of_process>();
    if (thread_.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) return *made.release();
    return *found; // another thread was faster
  }

  std::atomic<resolver*> resolver_{nullptr};
  std::atomic<thread_of_process*> thread_{nullptr};
};

constinit names_of_net the_names;

// Before the constructors of static objects, which may look names up.
[[gnu::constructor(101)]] void say_so() noexcept { the_names.say_so(); }

} // namespace

constinit char const unio_net_is_linked = 1;

} // namespace unio
