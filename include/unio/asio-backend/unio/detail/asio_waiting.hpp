// unio/detail/asio_waiting.hpp: the operations of a descriptor that wait for one direction, in their order.
// Part of asio_reactor.hpp and of asio_completions.hpp; there is no guard.
//
// Where unio or Asio records what waits (UNIO_TRACK_PENDING, ASIO_ENABLE_HANDLER_TRACKING), each has the time
// and the places at which it began to; otherwise this is Asio's queue and no more.

#include <unio/extend/foreign_pending.hpp>

#include <cstddef>

#if (defined(UNIO_TRACK_PENDING) && UNIO_TRACK_PENDING) || defined(ASIO_ENABLE_HANDLER_TRACKING) || \
    defined(BOOST_ASIO_ENABLE_HANDLER_TRACKING)
#define UNIO_ASIO_RECORDS 1
#include <chrono>
#include <list>
#include <vector>
#else
#define UNIO_ASIO_RECORDS 0
#endif

UNIO_ASIO_BEGIN

#if UNIO_ASIO_RECORDS

template <class Op> class waiting_ops {
  struct record {
    Op* op;
    std::chrono::steady_clock::time_point since;
    std::vector<unio::foreign_place> places;
  };
  typedef std::list<record> records; // of which none moves

 public:
  bool empty() const { return all_.empty(); }
  std::size_t size() const { return all_.size(); }
  Op* front() { return all_.empty() ? 0 : all_.front().op; }
  // If there is no memory, it is not queued.
  void push(Op* op) {
    record r = {op, std::chrono::steady_clock::now(), std::vector<unio::foreign_place>()};
    for (unio::foreign_location const* l = unio::foreign_location::innermost(); l; l = l->outer())
      r.places.push_back(l->place());
    all_.push_back(static_cast<record&&>(r));
  }
  void pop() { all_.pop_front(); }
  void rotate() { all_.splice(all_.end(), all_, all_.begin()); }
  void move_all(op_queue<operation>& to) {
    for (; !all_.empty(); all_.pop_front()) to.push(all_.front().op);
  }
  void list(unio::foreign_watch const& watch, unsigned what, unio::foreign_list& to) {
    for (typename records::const_iterator r = all_.begin(); r != all_.end(); ++r) {
      unio::foreign_waiting const w = {&watch, what, r->since, r->places.data(), r->places.size()};
      to.add(w);
    }
  }

 private:
  // A queue of Asio's destroys what is left; the reactor has taken all by then.
  records all_;
};

#else

template <class Op> class waiting_ops {
 public:
  bool empty() const { return all_.empty(); }
  std::size_t size() {
    std::size_t n = 0;
    for (Op* op = all_.front(); op; op = op_queue_access::next(op)) ++n;
    return n;
  }
  Op* front() { return all_.front(); }
  void push(Op* op) { all_.push(op); }
  void pop() { all_.pop(); }
  void rotate() {
    Op* const op = all_.front();
    all_.pop();
    all_.push(op);
  }
  void move_all(op_queue<operation>& to) { to.push(all_); }
  void list(unio::foreign_watch const& watch, unsigned what, unio::foreign_list& to) {
    for (Op* op = all_.front(); op; op = op_queue_access::next(op)) {
      unio::foreign_waiting const w = {&watch, what, std::chrono::steady_clock::time_point(), 0, 0};
      to.add(w);
    }
  }

 private:
  op_queue<Op> all_;
};

#endif

UNIO_ASIO_END

#undef UNIO_ASIO_RECORDS
