// Where an operation is, and what each trigger does there (src/driver/life.hpp): the table against what the
// drivers do. A scripted operation is brought to each place, and each trigger happens to it there.

#include "driver/life.hpp"

#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"
#include "sys/calls.hpp"
#include "sys/kernel_abi.hpp"

namespace {

using namespace test;
using namespace unio::driver;
using unio::driver::outcome;

constexpr auto all_places = [] {
  std::array<place, unio::driver::place_count> all{};
  for (std::size_t i = 0; i != all.size(); ++i) all[i] = static_cast<place>(i);
  return all;
}();

// What it waits for, whether a ring can do it, and what it performs are up to the test.
class probe : public io_operation, unio::work {
 public:
  probe(int fd, unio::io_multiplexer& m, readiness waits_for, bool for_ring, bool many = false)
      : io_operation(many ? faces_of_many : faces, unio::handle_kind::pipe, fd, &m, {}),
        work([](work& w, bool) noexcept { (void)static_cast<probe&>(w).poll(); }),
        waits(waits_for),
        ring(for_ring) {
    if (many) set_multishot();
    set_notification([](io_operation& op, unsigned stages) noexcept {
      auto& self = static_cast<probe&>(op);
      ++self.notified;
      if ((stages & done) != 0) op.mark_finished();
      if (self.hook) std::exchange(self.hook, nullptr)();
    });
  }
  ~probe() { abandon(); }
  /// The resource that it waits for is there.
  void grant() { multiplexer()->post(static_cast<work&>(*this)); }

  [[nodiscard]] place where() const { return links.is.where; }

  readiness waits;
  bool ring;
  bool with_others = false;
  std::atomic<bool> can_go_on{false};
  std::atomic<bool> is_begun{false}; // by a worker
  std::atomic<bool> holds_worker{true};
  std::int64_t moment = unio::deadline::forever;
  int notified = 0;
  std::function<void()> hook; // of the next notification
  std::set<place> performed_in;

 private:
  static probe& self(io_operation& op) { return static_cast<probe&>(op); }
  static probe const& self(io_operation const& op) { return static_cast<probe const&>(op); }

  static bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
    if (!self(op).ring) return false;
    sqe.opcode = IORING_OP_POLL_ADD;
    sqe.fd = op.fd();
    sqe.poll32_events = POLLIN;
    return true;
  }
  static int perform(io_operation& op, attempt how) noexcept {
    probe& p = self(op);
    if (how == attempt::blocking) {
      p.is_begun = true;
      while (p.holds_worker) std::this_thread::sleep_for(1ms);
      return 7;
    }
    p.performed_in.insert(p.where());
    bool const due = p.waits == readiness::time && unio::sys::steady_now() >= p.moment;
    return p.can_go_on || due ? 7 : -EAGAIN;
  }
  static outcome complete(io_operation& op, int res, unsigned) noexcept {
    if (res == -EAGAIN) return outcome::again;
    op.set_outcome(res);
    return op.is_multishot() && res >= 0 ? outcome::more : outcome::finished;
  }
  static constexpr unio::driver::operation_faces tried(unio::driver::inline_attempt tries) {
    return {.name = "probe",
            .tries = tries,
            .interruptible = true,
            .prepare = prepare,
            .wants = [](io_operation const& op) noexcept { return self(op).waits; },
            .perform = perform,
            .complete = complete,
            .moment = [](io_operation const& op) noexcept { return self(op).moment; },
            .goes_with_others = [](io_operation const& op) noexcept { return self(op).with_others; },
            .resource = &resource};
  }
  static unio::driver::resource_faces const resource;
  static unio::driver::operation_faces const faces;
  static unio::driver::operation_faces const faces_of_many;
};

constinit unio::driver::resource_faces const probe::resource = {
    .name = "a test",
    .enqueue = [](io_operation&) noexcept { return true; },
    .is_granted = [](io_operation const& op) noexcept { return self(op).can_go_on.load(); },
    .leave = [](io_operation&) noexcept {},
    .block = nullptr};
constinit unio::driver::operation_faces const probe::faces = tried(unio::driver::inline_attempt::always);
constinit unio::driver::operation_faces const probe::faces_of_many =
    tried(unio::driver::inline_attempt::never);

// An operation that has been brought to a place, for as long as `body` of with() runs.
struct scene {
  std::unique_ptr<unio::io_multiplexer> m;
  unio::anonymous_pipe pipe = unio::pipe_handle::anonymous().value();
  unio::anonymous_pipe other = unio::pipe_handle::anonymous().value();
  std::unique_ptr<probe> op;

  explicit scene(std::string const& driver) : m(test::make_multiplexer(driver.c_str()).value()) {}

  void make(readiness waits, bool ring, bool many = false) {
    op = std::make_unique<probe>(pipe.reader.native_handle(), *m, waits, ring, many);
  }
  static void put(unio::anonymous_pipe const& p) { ASSERT_EQ(::write(p.writer.native_handle(), "x", 1), 1); }
  void turn() { ASSERT_TRUE(m->try_run_for(0ms).has_value()); }
  /// A ring of one entry takes one operation a turn, and first of all its own.
  template <class Reached> void turn_until(Reached reached) {
    for (int turns = 0; !reached(); ++turns) {
      ASSERT_LT(turns, 10'000) << "stuck in " << name_of(op->where());
      turn();
    }
  }
  /// What it waits for happens.
  void fulfil() {
    op->can_go_on = true;
    op->holds_worker = false;
    op->moment = 0;
    if (op->where() == place::queued) op->grant();
    put(pipe);
  }
  void drive() {
    op->holds_worker = false;
    auto const give_up = std::chrono::steady_clock::now() + 20s;
    while (!op->finished()) {
      ASSERT_TRUE(m->try_run_for(10ms).has_value());
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "stuck in " << name_of(op->where());
    }
  }

  /// `body` within a receiver, while another one, `last`, waits for its turn.
  void in_company(probe& last, std::function<void()> body) {
    probe first(other.reader.native_handle(), *m, readiness::readable, true);
    first.hook = std::move(body);
    first.start();
    last.start();
    auto const waits = [](probe const& p) {
      return p.where() == place::in_kernel || p.where() == place::parked;
    };
    turn_until([&] { return waits(first) && waits(last); });
    first.can_go_on = last.can_go_on = true;
    put(other);
    put(pipe);
    while (!first.finished() || !last.finished()) turn();
  }
};

using body = std::function<void(scene&)>;

// Whether `driver` has the place.
bool has(std::string const& driver, place where) {
  bool const is_rings = where == place::to_try || where == place::to_submit || where == place::to_poll ||
                        where == place::in_kernel || where == place::polled;
  return is_rings ? driver == "uring" : where != place::parked || driver == "epoll";
}

// Brings the probe to `where` and runs `body` there.
void with(scene& s, place where, body const& at) {
  auto stays = [&](readiness waits, bool ring) {
    s.make(waits, ring);
    if (waits == readiness::time) s.op->moment = unio::sys::steady_now() + std::int64_t{3600} * 1'000'000'000;
    s.op->start();
    s.turn_until([&] { return s.op->where() == where; });
    while (waits == readiness::worker && !s.op->is_begun) std::this_thread::sleep_for(1ms);
    at(s);
  };
  switch (where) {
    case place::idle:
      s.make(readiness::readable, true);
      return at(s);
    case place::at_hand:      // of the driver while it performs it: see performed_in
    case place::with_members: // link_test.cpp
    case place::unclaimed:    // several_threads_test.cpp
      return;
    case place::to_submit:
      return stays(readiness::readable, true);
    case place::to_poll:
      s.put(s.pipe); // it says that it is ready, and is not
      return stays(readiness::readable, false);
    case place::in_kernel:
      return stays(readiness::readable, true);
    case place::polled:
    case place::parked:
      return stays(readiness::readable, false);
    case place::with_worker:
      return stays(readiness::worker, false);
    case place::queued:
      return stays(readiness::resource, false);
    case place::timed:
      return stays(readiness::time, false);
    case place::retrying:
      return stays(readiness::retry, false);
    case place::yielded:
      s.make(readiness::readable, false, true);
      s.op->hook = [&] {
        s.op->can_go_on = false;
        at(s);
      };
      s.op->can_go_on = true;
      s.op->start();
      s.turn_until([&] { return s.op->notified != 0; });
      return;
    case place::later:
      return stays(readiness::nothing, false);
    case place::to_try:
    case place::ready: {
      s.make(readiness::readable, true);
      s.op->with_others = where == place::to_try;
      s.op->can_go_on = where == place::ready;
      probe last(s.pipe.reader.native_handle(), *s.m, readiness::readable, true);
      return s.in_company(last, [&] {
        s.op->start();
        at(s);
      });
    }
    case place::landed:
      s.make(readiness::readable, true);
      return s.in_company(*s.op, [&] { at(s); });
  }
}

class life : public test::on_each_driver {
 protected:
  void SetUp() override {
    on_each_driver::SetUp();
    m_.reset(); // each scene makes its own
  }
};
UNIO_ON_BOTH_DRIVERS(life);

// Runs `each` for every place that the driver has and that lasts.
void for_each_place(std::string const& driver, std::function<void(scene&, place)> const& each) {
  for (place const where : all_places) {
    if (!has(driver, where)) continue;
    SCOPED_TRACE(name_of(where));
    scene s(driver);
    int visits = 0;
    with(s, where, [&](scene& there) {
      ++visits;
      ASSERT_STREQ(name_of(there.op->where()), name_of(where));
      each(there, where);
    });
    bool const lasts = where != place::at_hand && where != place::with_members && where != place::unclaimed;
    EXPECT_EQ(visits, lasts ? 1 : 0);
    if (lasts && s.op->started()) s.drive();
  }
}

TEST_P(life, a_stop_does_what_the_table_says) {
  for_each_place(GetParam(), [](scene& s, place where) {
    reaction const expected = what_follows(where, trigger::stop);
    s.op->cancel();
    bool const is_noted = where == place::yielded; // its receiver is being notified of a value
    bool const ends = !is_noted && (expected == reaction::end || expected == reaction::withdraw ||
                                    expected == reaction::leave);
    EXPECT_STREQ(name_of(s.op->where()), name_of(ends ? place::landed : where));
    if (where == place::idle || where == place::ready || where == place::landed) return;
    EXPECT_TRUE(s.op->links.is.cancel_wanted);
    s.op->hook = [&s, where] {
      EXPECT_EQ(s.op->outcome_value(), where == place::with_worker ? 7 : -ECANCELED);
    };
  });
}

TEST_P(life, what_it_waits_for_ends_it) {
  for_each_place(GetParam(), [](scene& s, place where) {
    s.fulfil();
    bool const stopped = where == place::timed || where == place::yielded; // the moment was noted before
    if (stopped) s.op->cancel();
    s.op->hook = [&s, stopped] { EXPECT_EQ(s.op->outcome_value() > 0, !stopped) << s.op->outcome_value(); };
  });
}

TEST_P(life, a_moment_does_what_the_table_says) {
  for (place const where : {place::timed, place::retrying}) {
    scene s(GetParam());
    bool const is_timed = where == place::timed;
    s.make(is_timed ? readiness::time : readiness::retry, false);
    s.op->moment = unio::sys::steady_now() + 5'000'000;
    s.op->start();
    s.turn_until([&] { return s.op->where() == where; });
    ASSERT_EQ(what_follows(where, trigger::moment), is_timed ? reaction::perform : reaction::rearm);
    s.op->can_go_on = !is_timed;
    s.drive();
    EXPECT_EQ(s.op->outcome_value(), 7);
  }
}

TEST_P(life, a_driver_that_is_lost_gives_back_what_the_table_says) {
  if (GetParam() != "uring") GTEST_SKIP() << "epoll is not lost";
  for_each_place(GetParam(), [](scene& s, place where) {
    bool const in_receiver =
        where == place::ready || where == place::landed || where == place::yielded || where == place::to_try;
    if (where == place::idle || in_receiver) return s.op->cancel();
    test::failing_calls calls;
    calls.fail<&unio::sys::table::io_uring_enter>(EPERM, {.times = test::which_calls::all});
    probe other(s.other.reader.native_handle(), *s.m, readiness::readable, true);
    other.start(); // so that the ring has to be entered
    s.turn();
    ASSERT_STREQ(s.m->capabilities().driver, "epoll");
    bool const was_with_ring = unio::driver::is_with_backend(where);
    EXPECT_STREQ(name_of(s.op->where()), name_of(was_with_ring ? place::parked : where));
    s.op->cancel();
    other.cancel();
  });
}

TEST_P(life, a_delivered_value_is_followed_by_what_the_table_says) {
  scene s(GetParam());
  with(s, place::yielded, [](scene& there) { EXPECT_EQ(there.op->notified, 1); });
  ASSERT_EQ(what_follows(place::yielded, trigger::delivered), reaction::rearm);
  EXPECT_TRUE(unio::driver::is_with_backend(s.op->where())) << name_of(s.op->where());
  s.op->cancel();
  s.drive();
  EXPECT_EQ(s.op->notified, 2);
}

TEST_P(life, is_at_hand_while_a_driver_performs_it_and_idle_while_it_is_tried) {
  scene s(GetParam());
  with(s, GetParam() == "epoll" ? place::parked : place::polled, [](scene& there) {
    EXPECT_EQ(there.op->performed_in.count(place::idle), 1u);
    there.op->performed_in.clear();
    there.fulfil();
    there.drive();
    EXPECT_EQ(there.op->performed_in, std::set<place>{place::at_hand});
  });
}

// ---- the table alone --------------------------------------------------------------------------------------

std::set<place> reached_from(place start) {
  std::set<place> reached{start};
  for (std::size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (place const from : all_places)
      for (place const to : all_places)
        if (reached.count(from) != 0 && may_move(from, to)) reached.insert(to);
  }
  return reached;
}

TEST(life_table, leads_from_every_place_to_every_other) {
  for (place const start : all_places)
    EXPECT_EQ(reached_from(start).size(), all_places.size()) << name_of(start);
}

TEST(life_table, asks_only_for_steps_that_may_be_made) {
  for (place const where : all_places)
    for (int i = 0; i != unio::driver::trigger_count; ++i) {
      SCOPED_TRACE(std::string(name_of(where)) + ", trigger " + std::to_string(i));
      switch (what_follows(where, static_cast<trigger>(i))) {
        case reaction::never:
        case reaction::nothing:
          break;
        case reaction::retire:
          EXPECT_TRUE(may_move(where, place::idle));
          break;
        default:
          EXPECT_TRUE(may_move(where, place::at_hand) || may_move(where, place::landed));
      }
    }
}

TEST(life_table, death_of_an_operation_that_leaps) {
  if (!unio::sys::is_sanitized) GTEST_SKIP() << "only builds with a sanitizer look";
  scene s("epoll");
  s.make(readiness::readable, true);
  EXPECT_DEATH(move(*s.op, place::landed), "cannot come from there to here");
}

} // namespace
