// unio/detail/link.hpp: a chain of operations, without the types of its members and with them.

#pragma once

#include <unio/detail/operations.hpp>

#include <array>
#include <concepts>
#include <tuple>
#include <utility>

namespace unio::inline v0_1::detail {

/// A chain, whatever its members are. Not a template (src/op/link.cpp).
class UNIO_API chain : public io_operation {
 public:
  /// How many members have completed in full; the next one, if there is one, runs or has ended the chain.
  [[nodiscard]] std::size_t completed_members() const noexcept { return position_; }
  [[nodiscard]] bool is_complete() const noexcept { return position_ == count_; }
  /// Makes it startable again with the same members. Preconditions: not started, or finished.
  void reset() noexcept;

  // For its faces and the multiplexer.

  /// No member runs, and none will.
  [[nodiscard]] bool is_over() const noexcept { return broken_ || is_complete(); }
  /// The member that runs. Preconditions: !is_over().
  [[nodiscard]] io_operation& current() noexcept { return member(position_); }
  /// Each descriptor of a member that has not completed.
  void for_each_to_come(void (*f)(int fd, void* context), void* context);
  void begin() noexcept;
  /// Starts members until one has to wait. False: one waits.
  bool run(driver::attempt how) noexcept;
  /// Starts no further member, and cancels the running one.
  void stop() noexcept;
  /// Closes or releases what members have obtained.
  void reclaim_members() noexcept;

 protected:
  /// How a chain uses a member, whose type it does not know.
  struct entry {
    io_operation& (*operation)(chain&) noexcept;
    void (*bind)(chain&) noexcept; ///< reports its end to the chain
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

  /// Called when the members are known: chooses theirs.
  void choose_multiplexer() noexcept;
  /// For a chain that ended without having run (its multiplexer could not): the first member gets the reason.
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
  bool broken_ = false;    // a member did not complete in full
  bool stopped_ = false;   // no other member is started
  bool advancing_ = false; // run() is under way
  unio::deadline within_;
  unio::deadline own_; // of the running member, which has the chain's while it runs
  std::int64_t due_ = unio::deadline::forever;
};

/// A member of a chain. Destroyed with the chain, which has ended by then; but not in a child made by fork.
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
    } else if constexpr (requires { s.bytes().bytes(); }) { // a message, which may be sent in part
      return n == s.bytes().bytes();
    } else if constexpr (requires { s.batch().front().bytes; }) {
      return n == s.batch().size();
    } else {
      return true;
    }
  }

 private:
  chain* whole_ = nullptr;
};

template <class S>
concept linkable =
    std::derived_from<S, io_operation> && std::movable<S> && requires { typename S::result_type; };

/// A chain and its members: all of async_link but its public part.
template <class... Senders> class linked : public chain {
 protected:
  explicit linked(unio::deadline d, Senders&&... members) noexcept
      : chain(d, entries.data(), sizeof...(Senders)), members_(std::move(members)...) {
    choose_multiplexer();
  }

  template <class Result> Result result_as() noexcept {
    pass_on_failure();
    return [this]<std::size_t... I>(std::index_sequence<I...>) -> Result {
      std::tuple<typename Senders::result_type...> each{std::get<I>(members_).result()...};
      failure why;
      if (!is_complete()) {
        why = make_error_code(unio::error::truncated);
        auto const look = [&](std::size_t i, failure const& its) {
          if (i == completed_members() && its) why = its;
        };
        (look(I, std::get<I>(each).error()), ...);
      }
      return {std::move(each), completed_members(), why};
    }(std::index_sequence_for<Senders...>());
  }

  std::tuple<link_member<Senders>...> members_;

 private:
  template <class> friend class link_member;
  void member_told(io_operation& op, unsigned events) noexcept { told(op, events); }

  template <std::size_t I> static constexpr entry entry_of() noexcept {
    return {[](chain& c) noexcept -> io_operation& { return of<I>(c); },
            [](chain& c) noexcept { of<I>(c).bind(static_cast<linked&>(c)); },
            [](chain& c) noexcept { return of<I>(c).in_full(); }};
  }
  template <std::size_t I> static auto& of(chain& c) noexcept {
    return std::get<I>(static_cast<linked&>(c).members_);
  }
  static constexpr std::array<entry, sizeof...(Senders)> entries =
      []<std::size_t... I>(std::index_sequence<I...>) {
        return std::array<entry, sizeof...(Senders)>{entry_of<I>()...};
      }(std::index_sequence_for<Senders...>());
};

} // namespace unio::detail
