// unio/link.hpp: operations that run one after the other, with nobody in between.
//
//   link(a, b, …), link(deadline, a, b, …)   one operation made of them: to be connected, or started with a handler
//   co_link(…)                               the same, awaited
//   sync_link(…)                             the same, blocking
//   try_link(…), try_co_link(…), try_sync_link(…)   none of them waits
//   async_link                               what link() makes: a sender
//   link_result                              what each of them came to, and how far the chain came
//
//   auto [got, put] = co_await unio::co_link(async_read(from, {room, at}), async_write(to, {room, at}));

#pragma once

#include <unio/handle.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace unio {

namespace detail {

extern UNIO_API operation_faces const link_faces;

/// A chain, whatever its members are. In no template, so that there is one of it, in src/io/link.cpp.
class UNIO_API chain : public io_operation {
 public:
  /// How many members have done all that they were asked to do; the next one, if there is one, runs or has ended the chain.
  [[nodiscard]] std::size_t completed_members() const noexcept { return position_; }
  [[nodiscard]] bool is_complete() const noexcept { return position_ == count_; }
  /// Makes it startable again with the same members. Preconditions: not started, or finished.
  void reset() noexcept;

  // For its faces and the multiplexer.

  /// Nobody of it runs any more, and nobody will.
  [[nodiscard]] bool is_over() const noexcept { return broken_ || is_complete(); }
  /// The member that runs. Preconditions: !is_over().
  [[nodiscard]] io_operation& current() noexcept { return member(position_); }
  /// Each descriptor of a member that has not done its part.
  void for_each_to_come(void (*f)(int fd, void* context), void* context);
  void begin() noexcept;
  /// Starts who is to run, until one has to wait. False: one waits.
  bool run(attempt how) noexcept;
  /// Starts nobody any more, and asks the one that runs to end.
  void stop() noexcept;
  /// Gives back what members have obtained.
  void reclaim_members() noexcept;

 protected:
  /// What a chain asks of a member, whose type it does not know.
  struct entry {
    io_operation& (*operation)(chain&) noexcept;
    void (*bind)(chain&) noexcept; ///< its end is told to the chain
    bool (*in_full)(chain&) noexcept;
  };

  chain(unio::deadline d, entry const* entries, std::size_t count) noexcept
      : io_operation(link_faces, handle_kind::none, -1, nullptr, {}),
        entries_(entries),
        count_(static_cast<std::uint16_t>(count)),
        within_(d) {}
  chain(chain&&) = default;
  chain& operator=(chain&&) = default;
  ~chain() = default;

  /// Its members are known: it runs where they do.
  void choose_multiplexer() noexcept;
  /// A chain that ended without having run (its multiplexer could not): the first member says why.
  void pass_on_failure() noexcept;
  void told(io_operation& member, unsigned events) noexcept;

 private:
  [[nodiscard]] io_operation& member(std::size_t i) noexcept { return entries_[i].operation(*this); }
  void pass() noexcept;
  [[nodiscard]] int refusal() const noexcept;
  void tighten(io_operation& member) noexcept;
  void loosen(io_operation& member) noexcept;
  static unio::deadline& deadline_of(io_operation& member) noexcept;

  entry const* entries_;
  chain* outer_ = nullptr; // the chain that this one is a member of, while that runs
  std::uint16_t count_;
  std::uint16_t position_ = 0;
  bool broken_ = false;    // the member that runs did not do its part
  bool stopped_ = false;   // no other member is started
  bool advancing_ = false; // run() is under way
  unio::deadline within_;
  unio::deadline own_; // that of the member that runs, which has the chain's for so long
  std::int64_t due_ = unio::deadline::forever;
};

/// One of a chain. Destroyed with the chain, which has ended by then; but not in a child made by fork.
template <class Sender> class link_member : public Sender {
 public:
  explicit link_member(Sender&& s) noexcept : Sender(static_cast<Sender&&>(s)) {}
  link_member(link_member&&) = default;
  link_member& operator=(link_member&&) = default;
  ~link_member() { this->abandon(); }

  template <class Chain> void bind(Chain& whole) noexcept {
    whole_ = &whole;
    this->set_quiet();
    this->set_notification([](io_operation& op, unsigned events) noexcept {
      auto& self = static_cast<link_member&>(op);
      static_cast<Chain&>(*self.whole_).member_told(op, events);
    });
  }

  [[nodiscard]] bool in_full() noexcept {
    Sender const& s = *this;
    if (s.outcome_value() < 0) return false;
    auto const n = static_cast<std::size_t>(s.outcome_value());
    if constexpr (std::derived_from<Sender, chain>) {
      return s.is_complete();
    } else if constexpr (requires { s.request().buffers.bytes(); }) {
      return n == s.request().buffers.bytes();
    } else if constexpr (requires { s.request().bytes; }) {
      return n == s.request().bytes;
    } else {
      return true;
    }
  }

 private:
  chain* whole_ = nullptr;
};

} // namespace detail

/// What the members of a chain came to, in their order. `auto [a, b] = …` takes it apart.
///
/// Moved-from  the members' results are moved from
/// Size        those of the members' results, and 24 bytes
template <class... Results> class [[nodiscard]] link_result {
 public:
  link_result(std::tuple<Results...> each, std::size_t completed, std::error_code why) noexcept
      : each_(std::move(each)), completed_(completed), why_(why) {}

  /// How many of the first did all that they were asked to do. The next has an error, or moved less than it was asked to;
  /// those after that did not run, and say condition::canceled.
  [[nodiscard]] std::size_t completed() const noexcept { return completed_; }
  /// All of them did.
  [[nodiscard]] bool has_value() const noexcept { return completed_ == sizeof...(Results); }
  explicit operator bool() const noexcept { return has_value(); }
  /// What ended the chain: the error of the first that did not do its part; condition::truncated if that one moved less
  /// than it was asked to.
  [[nodiscard]] std::error_code error() const noexcept { return why_; }
  /// The bytes that all of them moved together.
  [[nodiscard]] std::size_t bytes_transferred() const noexcept {
    return std::apply([](auto const&... each) { return (std::size_t{0} + ... + each.bytes_transferred()); },
                      each_);
  }

  /// What the member `I` came to.
  template <std::size_t I> [[nodiscard]] auto& get() & noexcept { return std::get<I>(each_); }
  template <std::size_t I> [[nodiscard]] auto const& get() const& noexcept { return std::get<I>(each_); }
  template <std::size_t I> [[nodiscard]] auto&& get() && noexcept { return std::get<I>(std::move(each_)); }

 private:
  std::tuple<Results...> each_;
  std::size_t completed_;
  std::error_code why_;
};

/// Runs operations one after the other, as one operation. The next one is started when the one before has finished and
/// has done all that it was asked to do, without the caller's, a receiver's or a coroutine's turn in between.
///
/// Effects       as those of the members, in their order. A failure, and a transfer of less than was asked for (at the end of
///               a file, say), end the chain: the members after it are not started
/// Returns       what each of them came to: see link_result. Bytes that any of them moved are in its result
/// Errors        of the members: their own; of those that did not run: condition::canceled
/// Preconditions none of the members was started, yields many values, or is of an atomic_ form; handles that were given a
///               multiplexer were given the same one
/// Buffers       the callers' of the members; two members may use the same ones. Untouched by others until all has finished
/// Concurrency   as the members: no other operation is in between, unless it is started while the chain runs
/// Deadline      for the whole: the member that runs when it passes ends with condition::timed_out, unless it can be done at
///               that moment; no other is started after it. Members may have their own, which count from their start. Zero:
///               none of the members waits
/// Cancellation  of the one that runs, as its own; the others are not started
/// Closing       the handle of a member that has not run yet cancels the chain
/// Cost          no allocation, no copy; the members' system calls, and no turn of the loop for those that need not wait
/// Runs as       the members, each as its own · blocking: one blocking call after the other
/// Source        FEATURES L-03; io_uring_enter(2), IOSQE_IO_LINK
template <class... Senders>
class async_link : public detail::chain, public detail::standard_sender<async_link<Senders...>> {
 public:
  using result_type = link_result<typename Senders::result_type...>;

  explicit async_link(unio::deadline d, Senders... members) noexcept
      : chain(d, entries.data(), sizeof...(Senders)), members_(std::move(members)...) {
    choose_multiplexer();
  }
  explicit async_link(Senders... members) noexcept : async_link(unio::deadline(), std::move(members)...) {}

  /// A member, to be described anew (`chain.member<0>().reset(…)`). Preconditions: not started, or reset.
  template <std::size_t I> [[nodiscard]] auto& member() noexcept { return std::get<I>(members_); }

  [[nodiscard]] result_type result() noexcept { return result_of(std::index_sequence_for<Senders...>()); }

  /// For its members.
  void member_told(io_operation& op, unsigned events) noexcept { told(op, events); }

 private:
  template <std::size_t I> static constexpr entry entry_of() noexcept {
    return {[](chain& c) noexcept -> io_operation& { return of<I>(c); },
            [](chain& c) noexcept { of<I>(c).bind(static_cast<async_link&>(c)); },
            [](chain& c) noexcept { return of<I>(c).in_full(); }};
  }
  template <std::size_t I> static auto& of(chain& c) noexcept {
    return std::get<I>(static_cast<async_link&>(c).members_);
  }
  static constexpr std::array<entry, sizeof...(Senders)> entries =
      []<std::size_t... I>(std::index_sequence<I...>) {
        return std::array<entry, sizeof...(Senders)>{entry_of<I>()...};
      }(std::index_sequence_for<Senders...>());

  template <std::size_t... I> result_type result_of(std::index_sequence<I...>) noexcept {
    pass_on_failure();
    std::tuple<typename Senders::result_type...> each{std::get<I>(members_).result()...};
    std::error_code why;
    if (!is_complete()) {
      why = make_error_code(unio::error::truncated);
      ((I == completed_members() && std::get<I>(each).error() ? void(why = std::get<I>(each).error())
                                                              : void()),
       ...);
    }
    return {std::move(each), completed_members(), why};
  }

  std::tuple<detail::link_member<Senders>...> members_;
};

/// The form whose state several threads may touch.
template <class... Senders> using atomic_async_link = detail::atomic_form<async_link<Senders...>>;

namespace detail {
template <class S>
concept linkable =
    std::derived_from<S, io_operation> && std::movable<S> && requires { typename S::result_type; };
} // namespace detail

/// Describes a chain: see async_link. Starts nothing.
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
[[nodiscard]] async_link<Senders...> link(Senders... members) noexcept {
  return async_link<Senders...>(deadline(), std::move(members)...);
}
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
[[nodiscard]] async_link<Senders...> link(deadline d, Senders... members) noexcept {
  return async_link<Senders...>(d, std::move(members)...);
}
/// None of them waits.
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
[[nodiscard]] async_link<Senders...> try_link(Senders... members) noexcept {
  return async_link<Senders...>(deadline::zero(), std::move(members)...);
}

/// The same in the other two spellings.
template <class... Arguments>
  requires requires(Arguments&&... a) { link(static_cast<Arguments&&>(a)...); }
[[nodiscard]] auto co_link(Arguments&&... members) noexcept {
  return io_awaitable(link(static_cast<Arguments&&>(members)...));
}
template <detail::linkable... Senders> [[nodiscard]] auto try_co_link(Senders... members) noexcept {
  return io_awaitable(try_link(std::move(members)...));
}
template <class... Arguments>
  requires requires(Arguments&&... a) { link(static_cast<Arguments&&>(a)...); }
auto sync_link(Arguments&&... members) noexcept {
  return detail::blocking(link(static_cast<Arguments&&>(members)...));
}
template <detail::linkable... Senders> auto try_sync_link(Senders... members) noexcept {
  return detail::blocking(try_link(std::move(members)...));
}

} // namespace unio

template <class... Results>
struct std::tuple_size<unio::link_result<Results...>>
    : std::integral_constant<std::size_t, sizeof...(Results)> {};
template <std::size_t I, class... Results> struct std::tuple_element<I, unio::link_result<Results...>> {
  using type = std::tuple_element_t<I, std::tuple<Results...>>;
};
