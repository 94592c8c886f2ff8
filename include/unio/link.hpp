// unio/link.hpp: operations that run one after the other, as one operation.
//
//   link(a, b, …), link(deadline, a, b, …)          runs them, blocking
//   co_link(…)                                      the same, awaited
//   async_link(…)                                   a sender, to be connected or given a handler
//   try_link(…), try_co_link(…), try_async_link(…)  no member waits
//   link_result                                     the members' results, and how far the chain came
//
//   auto [got, put] = co_await unio::co_link(async_read(from, {room, at}), async_write(to, {room, at}));

#pragma once

#include <unio/detail/link.hpp>

namespace unio::inline v0_1 {

/// The results of a chain's members, in their order. `auto [a, b] = …` takes it apart.
///
/// Thread safety  distinct: safe; shared: any number of readers
/// Moved-from     the members' results are moved from
/// Cost           none
/// Size           those of the members' results, and 32 bytes
template <class... Results> class [[nodiscard]] link_result {
 public:
  link_result(std::tuple<Results...> each, std::size_t completed, failure why) noexcept
      : each_(std::move(each)), completed_(completed), why_(why) {}

  /// How many members, from the first on, completed in full. The next one failed or moved less than it was
  /// asked to; those after it did not run and report condition::canceled.
  [[nodiscard]] std::size_t completed() const noexcept { return completed_; }
  /// Whether all of them did.
  [[nodiscard]] bool has_value() const noexcept { return completed_ == sizeof...(Results); }
  explicit operator bool() const noexcept { return has_value(); }
  /// What ended the chain: the first failed member's error, or condition::truncated if it moved too little.
  [[nodiscard]] failure error() const noexcept { return why_; }
  /// The bytes that all of them moved together.
  [[nodiscard]] std::size_t bytes_transferred() const noexcept {
    return std::apply([](auto const&... each) { return (std::size_t{0} + ... + each.bytes_transferred()); },
                      each_);
  }

  /// The result of member `I`.
  template <std::size_t I> [[nodiscard]] auto& get() & noexcept { return std::get<I>(each_); }
  template <std::size_t I> [[nodiscard]] auto const& get() const& noexcept { return std::get<I>(each_); }
  template <std::size_t I> [[nodiscard]] auto&& get() && noexcept { return std::get<I>(std::move(each_)); }

 private:
  std::tuple<Results...> each_;
  std::size_t completed_;
  failure why_;
};

/// Runs operations one after the other, as one operation. Each starts as soon as the previous one has
/// completed in full, without a turn of the caller, a receiver or a coroutine in between.
///
/// Effects       those of the members, in their order. A failure ends the chain, and so does a transfer of
///               less than was asked for (at the end of a file, say): the members after it are not started
/// Returns       the result of each: see link_result. Bytes that a member moved are in its result
/// Errors        each member's own; condition::canceled for members that did not run
/// Preconditions no member was started, yields many values, or is of an atomic_ form; handles that were given
///               a multiplexer were given the same one
/// Buffers       the members' buffers are the caller's, and members may share them. Nothing else may touch
///               them until the chain has finished
/// Concurrency   as the members; other operations on their handles run in between only if started after it
/// Deadline      of the whole chain: the member that runs when it passes ends with condition::timed_out,
///               unless it can be done at that moment; no further member is started. Members may have
///               deadlines of their own, which count from their start. Zero: no member waits
/// Cancellation  of the running member, as its own; the others are not started
/// Closing       the handle of a member that has not run yet cancels the chain
/// Cost          no allocation, no copy; the members' system calls; no turn of the loop for ready members
/// Runs as       the members, each as its own · blocking: one blocking call after the other
/// Source        docs/features.md L-03; io_uring_enter(2), IOSQE_IO_LINK
template <class... Senders>
class async_link : public detail::linked<Senders...>, public detail::standard_sender<async_link<Senders...>> {
 public:
  using result_type = link_result<typename Senders::result_type...>;

  /// Describes the chain and starts nothing. One chain alone is that chain, and no chain of a chain.
  explicit async_link(unio::deadline d, std::type_identity_t<Senders>... members) noexcept
      : detail::linked<Senders...>(d, std::move(members)...) {}
  explicit async_link(std::type_identity_t<Senders>... members) noexcept
      : async_link(unio::deadline(), std::move(members)...) {}

  /// A member, for describing it again (`chain.member<0>().reset(…)`). Preconditions: not started, or reset.
  template <std::size_t I> [[nodiscard]] auto& member() noexcept { return std::get<I>(this->members_); }
  /// How many members have done all that they were asked to do; whether all have.
  using detail::chain::completed_members;
  using detail::chain::is_complete;
  /// Makes it startable again with the same members. Preconditions: not started, or finished.
  using detail::chain::reset;

  [[nodiscard]] result_type result() noexcept { return this->template result_as<result_type>(); }
};

// The constructors deduce nothing, because a time before the members is none of them.
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
async_link(Senders...) -> async_link<Senders...>;
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
async_link(deadline, Senders...) -> async_link<Senders...>;

/// The form whose state several threads may touch.
template <class... Senders> using atomic_async_link = detail::atomic_form<async_link<Senders...>>;

/// Describes a chain of which no member waits.
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
[[nodiscard]] async_link<Senders...> try_async_link(Senders... members) noexcept {
  return async_link<Senders...>(deadline::zero(), std::move(members)...);
}

/// Runs a chain, blocking: see async_link. With a deadline first it bounds the whole chain.
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
link_result<typename Senders::result_type...> link(Senders... members) noexcept {
  return detail::blocking(async_link<Senders...>(deadline(), std::move(members)...));
}
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
link_result<typename Senders::result_type...> link(deadline d, Senders... members) noexcept {
  return detail::blocking(async_link<Senders...>(d, std::move(members)...));
}
/// The same; no member waits.
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
link_result<typename Senders::result_type...> try_link(Senders... members) noexcept {
  return detail::blocking(try_async_link(std::move(members)...));
}

/// The same, awaited.
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
[[nodiscard]] io_awaitable<async_link<Senders...>> co_link(Senders... members) noexcept {
  return io_awaitable(async_link<Senders...>(deadline(), std::move(members)...));
}
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
[[nodiscard]] io_awaitable<async_link<Senders...>> co_link(deadline d, Senders... members) noexcept {
  return io_awaitable(async_link<Senders...>(d, std::move(members)...));
}
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
[[nodiscard]] io_awaitable<async_link<Senders...>> try_co_link(Senders... members) noexcept {
  return io_awaitable(try_async_link(std::move(members)...));
}

/// The old names of link() and try_link().
template <class... Arguments>
  requires requires(Arguments&&... a) { link(static_cast<Arguments&&>(a)...); }
[[deprecated("use link")]] auto sync_link(Arguments&&... members) noexcept {
  return link(static_cast<Arguments&&>(members)...);
}
template <detail::linkable... Senders>
[[deprecated("use try_link")]] auto try_sync_link(Senders... members) noexcept {
  return try_link(std::move(members)...);
}

} // namespace unio

template <class... Results>
struct std::tuple_size<unio::link_result<Results...>>
    : std::integral_constant<std::size_t, sizeof...(Results)> {};
template <std::size_t I, class... Results> struct std::tuple_element<I, unio::link_result<Results...>> {
  using type = std::tuple_element_t<I, std::tuple<Results...>>;
};
