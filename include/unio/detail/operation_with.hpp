// unio/detail/operation_with.hpp: what operations derive from: what they are done on, and what they yield.
//
// The result is void; or a type, a value of which src/op fills in (of a call it is the last argument); or
//
//   detail::filled<T>             how much of the argument `into` was filled, as a T
//   detail::filled_or_needed<T>   the same, or how much is needed: that is the value
//   detail::requested<Buffers>    how much of the argument `request` was moved; reset() takes another request
//   detail::moved<Buffers>        how far the argument `into`, or `bytes`, was filled or drained
//   detail::counted               how many elements; the value is how many bytes
//   detail::opened<T>             a handle of the descriptor that is the outcome
//   detail::opened_as<T>          the same, of a kind that is the value
//   detail::repeated<Result>      such a result again and again (multishot)
//   detail::with<State>::yields<Result>   with private state for src/op, which is made of what the operation
//                                 is done on, or of nothing

#pragma once

#include <unio/io_request.hpp>
#include <unio/operation.hpp>

#include <type_traits>

namespace unio::inline v0_1 {

class path_handle;

namespace detail {

struct declared_access; // the operations' access to their private state (src/op/declared.hpp)

/// What has no descriptor, such as a map, is none of a kind.
template <class Subject> handle_kind kind_of(Subject const& s) noexcept {
  if constexpr (requires { s.native_handle(); })
    return s.kind();
  else
    return handle_kind::none;
}
template <class Subject> int number_of(Subject const& s) noexcept {
  if constexpr (requires { s.native_handle(); })
    return s.native_handle();
  else
    return -1;
}

/// What an operation is done on. The handle may be of a class that follows: its members are the forms of the
/// operation, and need that first.
class UNIO_API operation_on : public io_operation {
 protected:
  operation_on() = default;
  using io_operation::io_operation;
  template <class Subject>
  operation_on(driver::operation_faces const& table, Subject& s, unio::deadline d) noexcept
      : io_operation(table, kind_of(s), number_of(s), s.own_multiplexer(), d) {}
  // In src/op/declared.cpp, for headers that need no handle. A closed directory is the working directory.
  operation_on(driver::operation_faces const& table, handle const& h, unio::deadline d) noexcept;
  operation_on(driver::operation_faces const& table, path_handle const& base, unio::deadline d) noexcept;
  operation_on(driver::operation_faces const& table, io_multiplexer* m, unio::deadline d) noexcept
      : io_operation(table, handle_kind::none, -1, m, d) {}
};

template <class T> struct filled;
template <class T> struct filled_or_needed;
template <class Buffers> struct requested;
template <class Buffers> struct moved;
struct counted;
/// How a handle is made of what was opened. It may be a friend of its handle.
template <class T> struct opened {
  static T made(auto const& operation) noexcept { return T(operation.outcome_value()); }
};
template <class T> struct opened_as;
template <class Result> struct repeated;
template <class State, class Result> struct with_state;
template <class State> struct with {
  template <class Result> using yields = with_state<State, Result>;
};

/// The buffers that were filled or drained.
// Between two system calls of a loop over short reads: a call more would count.
template <class Buffers>
[[gnu::always_inline]] inline io_result<Buffers> transferred(int outcome, Buffers const& buffers) noexcept {
  auto const bytes = static_cast<std::size_t>(outcome);
  return {buffers.first(bytes), bytes};
}

/// What the result decides. A value that cannot be copied is the caller's from the first result() on.
template <class Operation, class Result>
class operation_with : public operation_on, public standard_sender<Operation> {
 public:
  using result_type = io_result<Result>;
  [[nodiscard]] result_type result() const noexcept
    requires std::is_copy_constructible_v<Result>
  {
    if (outcome_value() < 0) return failed();
    return {result_value_, static_cast<std::size_t>(outcome_value())};
  }
  [[nodiscard]] result_type result() noexcept
    requires(!std::is_copy_constructible_v<Result>)
  {
    if (outcome_value() < 0) return failed();
    return {static_cast<Result&&>(result_value_), static_cast<std::size_t>(outcome_value())};
  }

 protected:
  using operation_on::operation_on;

 private:
  friend struct declared_access;
  Result result_value_{};
};

/// An operation that yields nothing but success.
class UNIO_API void_operation : public operation_on {
 public:
  using result_type = io_result<void>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return {};
  }

 protected:
  using operation_on::operation_on;
};

template <class Operation>
class operation_with<Operation, void> : public void_operation, public standard_sender<Operation> {
 protected:
  using void_operation::void_operation;
};

/// The first `n` bytes of a buffer.
template <class T> T first_of(mutable_buffer into, std::size_t n) noexcept {
  if constexpr (requires { T(into.data(), n); })
    return T(into.data(), n);
  else if constexpr (requires { T(into); })
    return T(mutable_buffer(into.data(), n));
  else
    return T(reinterpret_cast<char const*>(into.data()), n);
}

template <class Operation, class T>
class operation_with<Operation, filled<T>> : public operation_on, public standard_sender<Operation> {
 public:
  using result_type = io_result<T>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    auto const n = static_cast<std::size_t>(outcome_value());
    auto const& into = static_cast<Operation const&>(*this).into();
    if constexpr (requires { into.first(n); })
      return into.first(n);
    else
      return {first_of<T>(into, n), n};
  }

 protected:
  using operation_on::operation_on;
};

template <class Operation, class T>
class operation_with<Operation, filled_or_needed<T>> : public operation_on,
                                                       public standard_sender<Operation> {
 public:
  using result_type = io_result<T>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return {failed(), result_value_};
    auto const n = static_cast<std::size_t>(outcome_value());
    return {first_of<T>(static_cast<Operation const&>(*this).into(), n), n};
  }

 protected:
  using operation_on::operation_on;

 private:
  friend struct declared_access;
  std::size_t result_value_ = 0;
};

template <class Operation, class Buffers>
class operation_with<Operation, requested<Buffers>> : public operation_on, public standard_sender<Operation> {
 public:
  using result_type = io_result<Buffers>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) [[unlikely]]
      return failed();
    return transferred(outcome_value(), static_cast<Operation const&>(*this).request().buffers);
  }
  using operation_on::reset;
  /// Makes it startable again with another request.
  void reset(io_request<Buffers> next) noexcept {
    operation_on::reset();
    static_cast<Operation&>(*this).request_ = next;
  }

 protected:
  using operation_on::operation_on;
};

template <class Operation, class Buffers>
class operation_with<Operation, moved<Buffers>> : public operation_on, public standard_sender<Operation> {
 public:
  using result_type = io_result<Buffers>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) [[unlikely]]
      return failed();
    auto const& self = static_cast<Operation const&>(*this);
    if constexpr (requires { self.into(); })
      return transferred(outcome_value(), self.into());
    else
      return transferred(outcome_value(), self.bytes());
  }

 protected:
  using operation_on::operation_on;
};

template <class Operation>
class operation_with<Operation, counted> : public operation_on, public standard_sender<Operation> {
 public:
  using result_type = io_result<std::size_t>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return {static_cast<std::size_t>(outcome_value()), result_value_};
  }

 protected:
  using operation_on::operation_on;

 private:
  friend struct declared_access;
  std::size_t result_value_ = 0;
};

/// A descriptor that result() has not taken is closed by the next run, or with the operation.
template <class Operation, class T>
class operation_with<Operation, opened<T>> : public operation_on, public standard_sender<Operation> {
 public:
  using result_type = io_result<T>;
  /// Once: the handle is the caller's from then on.
  [[nodiscard]] result_type result() noexcept {
    if (outcome_value() < 0) return failed();
    result_type taken = opened<T>::made(static_cast<Operation&>(*this));
    set_outcome(-static_cast<int>(std::errc::bad_file_descriptor));
    return taken;
  }
  void reset() noexcept {
    close_untaken();
    operation_on::reset();
  }

 protected:
  operation_with() = default;
  using operation_on::operation_on;
  operation_with(operation_with&& other) noexcept : operation_on(static_cast<operation_on&&>(other)) {
    other.set_outcome(0);
  }
  operation_with& operator=(operation_with&& other) noexcept {
    if (this == &other) return *this;
    close_untaken();
    operation_on::operator=(static_cast<operation_on&&>(other));
    other.set_outcome(0);
    return *this;
  }
  ~operation_with() { close_untaken(); }

 private:
  friend struct declared_access;
  static constexpr bool opens = true;
  void close_untaken() noexcept {
    if (outcome_value() > 0) [[unlikely]]
      faces().reclaim(*this);
  }
};

template <class Operation, class T>
class operation_with<Operation, opened_as<T>> : public operation_with<Operation, opened<T>> {
 public:
  [[nodiscard]] handle_kind opened_kind() const noexcept { return result_value_; }

 protected:
  using operation_with<Operation, opened<T>>::operation_with;

 private:
  friend struct declared_access;
  handle_kind result_value_ = handle_kind::file;
};

template <class Operation, class Result>
class operation_with<Operation, repeated<Result>> : public operation_with<Operation, Result> {
 protected:
  operation_with() = default;
  template <class Subject>
  operation_with(driver::operation_faces const& table, Subject& s, unio::deadline d) noexcept
      : operation_with<Operation, Result>(table, s, d) {
    this->set_multishot();
  }
};

template <class State, class Subject> State state_from([[maybe_unused]] Subject& s) noexcept {
  if constexpr (requires { State(s); })
    return State(s);
  else
    return State();
}

template <class Operation, class State, class Result>
class operation_with<Operation, with_state<State, Result>> : public operation_with<Operation, Result> {
 protected:
  operation_with() = default;
  template <class Subject>
  operation_with(driver::operation_faces const& table, Subject& s, unio::deadline d) noexcept
      : operation_with<Operation, Result>(table, s, d), own_(state_from<State>(s)) {}

 private:
  friend struct declared_access;
  State own_{};
};

} // namespace detail
} // namespace unio
