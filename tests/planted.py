"""What is planted into the library's sources, which themselves know nothing of it, and which test has to find it.

Each fault: what is wrong, what finds it, and (file below src/, the text that stands there exactly once, what is planted
instead). scripts/check-planted plants them and says which have lost their place.

    RING, THREADS   one at a time, by scripts/check-planted: in the ring's client and in lending; between threads, those
                    that have been there, with the test that finds each
    LOCKS           all at once, while the tests are built, with the test that switches each on. L1 ... L14 are defects
                    of published implementations
"""

# The first of RING and of THREADS changes nothing, and nothing may find it.
RING = [
    ("nothing is", "*", [
        ("driver/uring/slots.hpp", "++s.generation;", "++s.generation;")]),
    ("a generation is not counted", "*", [
        ("driver/uring/slots.hpp", "++s.generation;", "")]),
    ("a slot is free while its operation goes on", "*", [
        ("driver/uring/completions.hpp", "if (!goes_on(flags)) free_slot(op);", "free_slot(op);")]),
    ("a full queue drops a cancel", "*", [
        ("driver/uring/requests.hpp", "return; // never dropped", "return (void)to_cancel_.pop(); //")]),
    ("a full queue drops an entry", "*", [
        ("driver/uring/client.hpp",
         "return;\n      (void)to_submit_",
         "return (void)to_submit_.pop(); (void)to_submit_")]),
    ("readiness is taken for the result", "*", [
        ("driver/uring/completions.hpp", "if (performed) {\n    if (op", "if (true) {\n    if (op")]),
    ("a value is put on another", "*", [
        ("driver/uring/completions.hpp", "engine::has_undelivered(*op) && (flags", "false && (flags")]),
    ("the doorbell is not armed again", "*", [
        ("driver/uring/completions.hpp", "if (!goes_on(flags)) doorbell_armed_ = false;", "")]),
    ("it sleeps without the doorbell", "*", [
        ("driver/uring/client.hpp", "may_sleep && doorbell_armed_ &&", "may_sleep &&")]),
    ("it sleeps over what is not submitted", "*", [
        ("driver/uring/client.hpp", "to_submit_.empty() && to_cancel_", "to_cancel_")]),
    ("it sleeps over a cancel", "*", [
        ("driver/uring/client.hpp", "to_submit_.empty() && to_cancel_.empty() &&", "to_submit_.empty() &&")]),
    ("it sleeps over a result", "*", [
        ("driver/uring/client.hpp", "if (sleeps && e.has_ready()) {", "if (false) {")]),
    ("it sleeps over a moment", "*", [
        ("driver/uring/client.hpp", "until = sleeps ? e.sleeps_until(until) : 0;", "")]),
    ("it does not enter for completions", "*", [
        ("driver/uring/client.hpp", " || kernel_.needs_enter()", "")]),
    ("a shortage is an error", "*", [
        ("driver/uring/client.hpp", "if (!is_shortage(error)) return", "return")]),
    ("a cancel is not repeated after a value", "*", [
        ("driver/uring/completions.hpp", "goes_on(flags) && !engine::has_undelivered(op)) ask", "false) ask")]),
    ("an unknown multishot outlives its cancel", "*", [
        ("driver/uring/completions.hpp", "if (is_to_end(op)) return e.process(op, -ECANCELED, 0);\n        bool", "bool")]),
    ("a refused entry stays in the queue", "*", [
        ("driver/uring/client.hpp",
         "kernel_.put_back();\n        move(*op, place::at_hand);\n        without",
         "without")]),
    ("a buffer that is waited for is free", "*", [
        ("handle/buffer_pool.cpp", "if (first_ != nullptr && lent", "if (false && lent")]),
    ("a buffer on its way is lost with a cancel", "*", [
        ("op/receive.cpp", "if (res < 0 && res != -EAGAIN)", "if (false)")]),
    ("an attempt in vain keeps its buffer", "*", [
        ("op/receive.cpp", "    pool.give_back(buffer);\n", "")]),
    ("what is cancelled stays in the queue", "*", [
        ("op/receive.cpp", "pool(op).dequeue(self(op)) ||", "pool(op).count() ||")]),
    ("what was read before a stop is lost", "*", [
        ("op/receive.cpp", "return take_arrived(op, true);", "a.slots = nullptr;")]),
    ("the end overtakes what was read", "*", [
        ("op/receive.cpp",
         "if (op::access::waiter(op).arrived.slots == nullptr)",
         "if (has_end(op) || op::access::waiter(op).arrived.slots == nullptr)")]),
    ("what was read comes in another order", "*", [
        ("op/receive.cpp", "    slots->in(a.last).next = last;\n", "")]),
    ("what was read waits for more", "*", [
        ("op/receive.cpp",
         "\n  op.links.is.wants = readiness::resource;\n  return -EAGAIN;",
         "\n  return -EAGAIN;")]),
    ("a request that has ended is not made again", "*", [
        ("driver/uring/completions.hpp", "if (!more) move(op, place::yielded);", ";")]),
    ("what cannot be lent now is forgotten", "*", [
        ("driver/engine/waits.cpp", "  (void)backend_->disarm(*this, op);\n", "")]),
    ("memory that has gone is taken for what lies there now", "*", [
        ("driver/registered_memory.cpp",
         "  if (known_ == nullptr) known_.reset(",
         "  if (version_ != 0) return;\n  if (known_ == nullptr) known_.reset(")]),
    ("the number of other memory is told", "*", [
        ("driver/registered_memory.cpp", "      last_ = i;\n", "")]),
    ("memory that was not registered is used", "*", [
        ("driver/registered_memory.cpp",
         "state_ != table_state::made || table_.set(table_.kernel, number, p.at, p.bytes) != 0",
         "table_.set(table_.kernel, number, p.at, p.bytes) > 0")]),
    ("what is posted is not taken back", "*", [
        ("op/receive.cpp", "  sys::await_other([&] { return op.multiplexer()->withdraw(posted); });", "")]),
]

THREADS = [
    ("nothing is", "*", [
        ("driver/shared/waking.cpp",
         "  wakes_.exchange(true, std::memory_order_seq_cst);",
         "  wakes_.exchange(true, std::memory_order_seq_cst);")]),
    ("a foreign reactor's interruption wakes no thread",
     "an_interruption_is_not_lost_while_the_thread_lies_down", [
        ("driver/foreign/reactor.cpp",
         "s.interruptions.add();\n  s.sleeper.wake_if_asleep();",
         "s.interruptions.add();")]),
    ("a foreign reactor looks before it lies down",
     "an_interruption_is_not_lost_while_the_thread_lies_down", [
        ("driver/foreign/reactor.cpp",
         "  s.sleeper.runner.store(wait_ns != 0 ? foreign_sleeper::asleep : foreign_sleeper::inside,\n"
         "                         std::memory_order_seq_cst);\n",
         ""),
        ("driver/foreign/reactor.cpp",
         "s.transfers.has_reports()) wait_ns = 0;",
         "s.transfers.has_reports()) wait_ns = 0;\n"
         "  s.sleeper.runner.store(foreign_sleeper::asleep, std::memory_order_seq_cst);")]),
    ("a foreign reactor's interruption looks for a sleeper first",
     "an_interruption_is_not_lost_while_the_thread_lies_down", [
        ("driver/foreign/reactor.cpp",
         "  s.interruptions.add();\n  s.sleeper.wake_if_asleep();",
         "  s.sleeper.wake_if_asleep();\n  s.interruptions.add();")]),
    ("a foreign reactor reports what was removed", "what_was_removed_is_not_reported_afterwards", [
        ("driver/foreign/state.cpp",
         "foreign_access::generation(w).fetch_add(1, std::memory_order_relaxed);",
         "")]),
    ("run() sleeps though the last operation has just ended",
     "run_returns_when_the_last_operation_is_destroyed_before_it_runs", [
        ("driver/shared/slot.cpp",
         "if (!all.stays_ && own_engine()->in_flight() == 0 && all.pending() == landed) return true;",
         "(void)landed;")]),
    ("the last operation that ends wakes no thread",
     "run_returns_when_another_thread_has_finished_the_last_operation", [
        ("driver/shared/slot.cpp",
         "  counts.end_all(static_cast<unsigned>(n));\n  all.look_for_the_end();",
         "  counts.end_all(static_cast<unsigned>(n));")]),
    ("a thread that sleeps in a receiver is overlooked",
     "run_inside_a_receiver_returns_when_another_thread_has_finished_the_last_operation", [
        ("driver/shared/crew.cpp",
         "if (left == s.landed_.load(std::memory_order_relaxed)) with_engine",
         "if (left == 0) with_engine")]),
    ("a wake is lost while another thread pokes", "a_wake_is_not_lost_while_another_thread_posts", [
        ("driver/shared/waking.cpp",
         "if (s.missed.exchange(false, std::memory_order_seq_cst)) wake_sleeper();",
         "")]),
    ("a wake goes to a thread that does not run", "a_wake_is_for_a_thread_that_runs", [
        ("driver/shared/waking.cpp",
         "e->is_asleep() && s.takes_wakes()",
         "s.takes_wakes()")]),
    ("what ends with its handle stays pending",
     "run_returns_when_another_thread_has_closed_the_last_handle", [
        ("driver/engine/delivery.cpp", "deliver_apart(op); });\n  count_landed();", "deliver_apart(op); });")]),
    ("what ends with its thread stays pending",
     "nothing_is_pending_after_the_thread_of_the_last_operation_has_ended", [
        ("driver/engine/delivery.cpp", "deliver_apart(op); });\n  count_landed();", "deliver_apart(op); });"),
        ("driver/engine/closing.cpp", "if (landed_ != 0) discount_landed();", ""),
        ("driver/engine/handover.cpp", "count_landed();\n  give_away_posted();", "give_away_posted();")]),
    ("try_run_for() says that nothing is pending",
     "try_run_for_says_that_another_thread_has_something_pending", [
        ("driver/engine/loop.cpp",
         "(until == 0 || now() >= until)) return {.n = is_done()",
         "(until == 0 || now() >= until)) return {.n = is_idle()")]),
    ("an operation of a thread that does not run it wakes none",
     "an_operation_of_a_thread_that_does_not_run_it_is_run_by_one_that_sleeps", [
        ("driver/shared/crew.cpp",
         "unclaimed_.add(op); // from here on it may end\n  call_one();",
         "unclaimed_.add(op);")]),
    ("handlers of what ends inside start() are nested", "handlers_of_what_ends_inside_start_are_not_nested", [
        ("driver/ended.cpp", "if (mine.notifies) return;", "")]),
    ("a cancel that overtakes the start is lost", "a_stop_that_overtakes_the_start_is_not_lost", [
        ("driver/engine/mailbox.cpp",
         "has_begun ? cancel(*op) : op->keep_request(io_operation::request_cancel);",
         "if (has_begun) cancel(*op);")]),
    ("an operation finishes before set_done()", "an_operation_has_finished_when_its_receiver_has_returned", [
        ("driver/operation.cpp",
         "op.set(bit_completed | bit_ending);",
         "op.set(bit_completed | bit_finished), op_ = nullptr;")]),
    ("what is destroyed does not wait for set_done()",
     "destroying_an_operation_in_flight_waits_for_its_receiver", [
        ("driver/operation.cpp",
         "op.set(bit_completed | bit_ending);",
         "op.set(bit_completed | bit_finished), op_ = nullptr;")]),
    ("a thread that lies down does not look at the work", "a_post_is_not_lost_while_the_thread_lies_down", [
        ("driver/shared/slot.cpp", "if (all.has_posted() || (takes_wakes()", "if ((takes_wakes()")]),
    ("a thread that lies down does not look at what is new",
     "what_is_spawned_begins_though_the_thread_with_least_to_do_does_not_run", [
        ("driver/shared/slot.cpp",
         "if (leaves_until_ == deadline::forever && all.new_.has_work()) return true;",
         "")]),
    ("what is left to others is never looked at again",
     "what_is_spawned_begins_though_the_thread_with_least_to_do_does_not_run", [
        ("driver/shared/slot.cpp",
         "return std::min(leaves_until_, next_look_);",
         "return deadline::forever;")]),
    ("a thread leaves run() with what it was called for",
     "a_post_is_not_lost_with_a_thread_that_leaves_run", [
        ("driver/shared/waking.cpp", "  if (has_work()) all.call_one();\n", "")]),
    ("a thread waits for one that waits for it", "two_threads_destroy_what_the_other_one_runs", [
        ("driver/engine/closing.cpp", "if (times < 64) return", "if (times >= 0) return")]),
    ("a thread waits for one that waits for it, each with a multiplexer of its own",
     "two_threads_destroy_what_the_other_one_runs_on_its_own", [
        ("driver/registry.cpp", "  serve_others();\n  sys::give_way", "  sys::give_way")]),
    ("a thread that waits for another one never sleeps", "what_receives_is_dropped_while_it_reads_ahead", [
        ("driver/engine/closing.cpp", "return sys::give_way(times);", "return (void)sys::sched_yield();"),
        ("driver/registry.cpp", "sys::give_way(sys::yields_before_sleep);", "sys::sched_yield();")]),
    ("what was posted and runs is not pending", "run_says_0_only_when_what_was_posted_has_run", [
        ("driver/shared/slot.cpp",
         "if (!all.stays_ || !is_pools.load(std::memory_order_relaxed)) own_engine()->count_work();",
         "")]),
    ("what a thread runs that is none of the pool's is not pending",
     "a_pool_is_not_over_while_the_thread_that_joins_it_runs_something", [
        ("driver/shared/slot.cpp", "if (!all.stays_ || !is_pools.load(std::memory_order_relaxed))", "if (!all.stays_)")]),
    ("the kernel is not told to forget what was taken", "the_byte_after_that_is_for_the_next_read", [
        ("driver/uring/requests.hpp", "stale_[stale_count_++] = slots_.user_data(op.links.slot);", ";")]),
    ("nobody is called for what is new",
     "what_is_spawned_begins_though_the_thread_with_least_to_do_does_not_run", [
        ("driver/shared/waking.cpp", "call_one_of(slots_from(slots(), first));", "(void)first;")]),
    ("a thread begins more than its share", "threads_that_answer_begin_the_same_number_of_sessions", [
        ("driver/shared/slot.cpp",
         "all.share_of_new(*this, n) == 0) return false;",
         "false) return false;")]),
    ("a close overlooks what moves meanwhile", "closing_ends_what_a_thread_hands_over_meanwhile", [
        ("driver/registry.cpp",
         "if (sys::in_flight(fd) == 0 || c.moves == unclaimed_operations::moves()) return;",
         "return;")]),
    ("a thread is asked to help with one close only", "a_thread_is_asked_for_each_handle_that_another_closes", [
        ("driver/registry.cpp", "    m.is_posted_ = false;\n", "")]),
    ("a thread that closes is not told of another's close", "a_thread_that_closes_answers_another_one_that_does", [
        ("driver/registry.cpp",
         "  sys::tell_closing_threads(); // some of those that are asked may be waiting here themselves\n",
         "")]),
    ("a thread that closes is not told of the last end",
     "closing_returns_when_the_last_operation_was_polled_to_its_end", [
        ("driver/registry.cpp", "  sys::await_landings(c.fd);\n", "")]),
    ("a close overlooks a thread that begins to run", "closing_ends_what_another_thread_polls", [
        ("driver/shared/shared.cpp", "e->begin_to_run();", "")]),
    ("a thread that has only come seems to be away for long", "goes_on_soon_though_its_thread_has_only_come", [
        ("driver/shared/runners.cpp", "free->seen_at.store(sys::steady_now(), std::memory_order_relaxed);", "")]),
    ("a thread that leaves has no other look in its place", "goes_on_though_the_thread_that_looked_has_left", [
        ("driver/shared/waking.cpp", "  if (passes_on) goes_away();\n", "")]),
    ("an end that waits for a request waits for its thread",
     "the_end_that_waits_for_a_request_is_notified_though_its_thread_goes_away", [
        ("driver/engine/taking.cpp", "if (!is_elsewhere(*op) && waits &&", "if (!is_elsewhere(*op) && false &&")]),
    ("an end that waits for a request is not pending",
     "run_says_0_only_when_an_end_that_waits_for_a_request_is_notified", [
        ("driver/engine/delivery.cpp",
         "  ++deferred_;\n",
         "  ++deferred_;\n  if (shared_ != nullptr) shared_->counts.end(1);\n"),
        ("driver/engine/mailbox.cpp",
         "      --deferred_;\n",
         "      --deferred_;\n      if (shared_ != nullptr) shared_->counts.begin(1);\n")]),
    ("a blocking call waits for a thread that may never come",
     "a_blocking_call_fails_if_its_thread_cannot_run_the_multiplexer", [
        ("driver/shared/shared.cpp",
         "      if (my_engine() == nullptr && unclaimed_.take(op)) return end_one(op, why_none());\n",
         "")]),
    ("what keeps a run() from ending is taken over",
     "run_of_a_task_returns_though_its_thread_was_away_when_another_ended_it", [
        ("coro/away.cpp", "connect(stays_here(never), nobody())", "connect(atomic_async_wait(never), nobody())")]),
    ("what a thread leaves is divided", "what_a_thread_leaves_goes_on_with_one_other", [
        ("driver/shared/unclaimed.cpp", "    op->links.is.with_next = true;\n", "")]),
    ("a thread that ends keeps a wake", "a_wake_is_not_lost_while_a_thread_ends", [
        ("driver/engine/handover.cpp", "if (mail_.take_wake()) shared_->give_wake();", "")]),
    ("a wake is for a blocking call", "a_wake_is_for_a_run_and_not_for_a_blocking_call", [
        ("driver/shared/waking.cpp", "s.takes_wakes() && take_wake()", "take_wake()"),
        ("driver/engine/several.cpp", "if (was_woken || woken) pass_wake_on();", "")]),
    ("a wake is for the run of a task", "a_wake_is_for_a_run_and_not_for_that_of_a_task", [
        ("coro/away.cpp", "one_of_several != nullptr ? one_of_several->run_in_call() : m->run()", "m->run()")]),
    ("a thread that has slept for long seems to be away since", "goes_on_soon_though_its_thread_has_slept_for_long", [
        ("driver/engine/several.cpp", "if (has_woken) count_trip();", "")]),
    ("what another thread ends is waited for here", "what_is_destroyed_is_waited_for_though_another_ends_it", [
        ("driver/engine/abandon.cpp", "op.finished() || is_elsewhere(op) || ", "op.finished() || ")]),
    ("a pool's threads do not learn of the last end elsewhere",
     "a_pool_is_joined_when_the_last_ends_on_a_thread_that_is_not_its_own", [
        ("driver/shared/crew.cpp",
         "if (stays_ && phase_.load(std::memory_order_seq_cst) != phase::closing) return;",
         "if (stays_) return;")]),
    ("the only thread of a pool helps no other", "what_another_thread_posts_that_runs_a_pool_runs_though_that_is_busy", [
        ("driver/shared/slot.cpp", "if (all.present() != 1) all.help(*this);", "if (all.threads_ != 1) all.help(*this);")]),
    ("what no thread runs yet outlives its pool", "what_no_thread_runs_yet_ends_with_a_pool", [
        ("coro/thread_pool.cpp", "    multiplexer_->drop_what_waits();\n", "")]),
    ("what a thread forks is dropped as if that had ended",
     "what_a_thread_posts_that_runs_a_pool_while_that_is_joined_is_dropped", [
        ("driver/shared/crew.cpp", "    s.age(); // its thread", "    if (work* const f = s.pop_forked(); f != nullptr) return f; // its thread")]),
    ("at its end a multiplexer drops nothing while it waits for what it drops", "give_everything_back_when_the_pool_ends", [
        ("coro/away.cpp", "  if (dropping::is_about(here))", "  if (false)")]),
    ("a chain that is being dropped is dropped again", "give_everything_back_when_the_pool_ends", [
        ("coro/task.cpp", "      if (r->root_ == &root) return;", "      if (r->root_ == &root) break;")]),
    ("a thread that ends waits for what it has",
     "the_multiplexer_is_destroyed_when_a_thread_has_handed_over", [
        ("driver/engine/handover.cpp", "came_back(op);\n          return false;", "came_back(op);")]),
]

# Each stands behind its switch, so that one program has all of them. The first is what they are switched by.
LOCKS = [
    ("the switch of the others", "crash/hook_modes.cpp", [
        ("locks/hooks.hpp", "void step(char const* name) noexcept; // the test program's",
         "void step(char const* name) noexcept; // the test program's\n"
         "bool defect(char const* id) noexcept; // the test program's: whether it switched this one on"),
        ("locks/memory_map.cpp", "static void step(char const* name) noexcept { hooks::step(name); }",
         "static void step(char const* name) noexcept { hooks::step(name); }\n"
         "  static bool defect(char const* id) noexcept { return hooks::defect(id); }"),
        ("locks/lock_bytes.cpp", '#include "sys/descriptors.hpp"', '#include "locks/hooks.hpp"\n#include "sys/descriptors.hpp"'),
        ("locks/shared_fs_mutex.cpp", '#include "sys/due.hpp"', '#include "locks/hooks.hpp"\n#include "sys/due.hpp"')]),
    ("L1", "crash/lock_crash_test.cpp", [
        ("locks/lock_file.cpp", '  hooks::step("join.in_use");',
         '  if (hooks::defect("L1")) byte_lock::unlock(fd_, in_use_byte);\n  hooks::step("join.in_use");')]),
    ("L2", "crash/lock_crash_test.cpp", [
        ("locks/shared_fs_mutex.cpp", "first[kept].exclusive |= first[i].exclusive;",
         "first[kept].exclusive |= first[i].exclusive;\n"
         '      if (hooks::defect("L2")) break; // forgets the others')]),
    ("L3", "crash/lock_crash_test.cpp", [
        ("locks/lock_bytes.cpp", "  bool const sleeps = how.due_ns ==",
         '  if (hooks::defect("L3") && how.never()) return lock(fd, at, kind);\n  bool const sleeps = how.due_ns ==')]),
    ("L4", "crash/lock_crash_test.cpp", [
        ("locks/lock_bytes.cpp", "deadline::forever && !how.spin;", 'deadline::forever && !how.spin && !hooks::defect("L4");'),
        ("locks/lock_bytes.cpp", "if (e != -EAGAIN) return e;\n    if (sleeps)",
         'if (e != -EAGAIN && !(hooks::defect("L4") && e != 0)) return e;\n    if (sleeps)')]),
    ("L5", "crash/lock_crash_test.cpp", [
        ("locks/atomic_append.cpp", "  held.words[0] = static_cast<std::uint64_t>(r.fd);",
         '  if (hooks::defect("L5")) byte_lock::unlock_all(r.fd); // pretends that the lock is for waiting only\n'
         "  held.words[0] = static_cast<std::uint64_t>(r.fd);")]),
    ("L6", "crash/lock_crash_test.cpp", [
        ("locks/atomic_append.cpp", "  held.words[1] = r.at;",
         '  if (hooks::defect("L6")) r.at = first.load(std::memory_order_relaxed);\n  held.words[1] = r.at;')]),
    ("L8", "crash/lock_crash_test.cpp", [
        ("locks/atomic_append.cpp", 'if (r.at != 0) (void)write_state(r.fd, r.at, layout::done); // 0: the file was cut off\n'
         '  hooks::step("unlock.done");',
         "int const e = r.at != 0 ? write_state(r.fd, r.at, layout::done) : 0; // 0: the file was cut off\n"
         '  hooks::step("unlock.done");\n'
         '  if (e != 0 && hooks::defect("L8")) return; // pretends that it is done')]),
    ("L9", "crash/lock_crash_test.cpp", [
        ("locks/shared_fs_mutex.cpp", "  sort(first, size_);", '  if (!hooks::defect("L9")) sort(first, size_);')]),
    ("L10", "crash/lock_crash_test.cpp", [
        ("locks/lock_file.cpp", "  result<int> const fd = of.open_description();",
         '  if (hooks::defect("L10")) return ::fcntl(of.fd(), F_DUPFD_CLOEXEC, 3); // shares the open description\n'
         "  result<int> const fd = of.open_description();")]),
    ("L13", "crash/lock_crash_test.cpp", [
        ("locks/map_protocol.hpp", "if ((s.readers[part].load(std::memory_order_relaxed) & bit) != 0) {",
         'if ((s.readers[part].load(std::memory_order_relaxed) & bit) != 0 && !env::defect("L13")) {')]),
    ("L14", "crash/lock_crash_test.cpp", [
        ("locks/lock_file.cpp", "if (named == 0) continue;", 'if (named == 0 && !hooks::defect("L14")) continue;')]),
    ("untold", "crash/lock_crash_test.cpp", [
        ("locks/atomic_append.cpp", "if (before.obstacle.at != 0) becomes",
         'if (before.obstacle.at != 0 || hooks::defect("untold")) becomes'),
        ("locks/map_protocol.hpp", "std::uint64_t const noted = copy_owned(i);",
         'std::uint64_t const noted = env::defect("untold") ? 0 : copy_owned(i);')]),
    ("told again", "crash/lock_crash_test.cpp", [
        ("locks/atomic_append.cpp", "        if (told != c.told) failed =",
         '        if (hooks::defect("told again")) told = c.told;\n        if (told != c.told) failed ='),
        ("locks/map_protocol.hpp", "bool take_notes(detail::holding& held) noexcept {\n",
         "bool take_notes(detail::holding& held) noexcept {\n"
         '    if (env::defect("told again"))\n'
         "      return std::ranges::any_of(held.entities, [&](entity e) {\n"
         "        return has_notes(slots_[e.value].word.load(std::memory_order_relaxed));\n"
         "      });\n")]),
    ("told by slot", "crash/lock_crash_test.cpp", [
        ("locks/map_protocol.hpp", "if (is != note) continue;",
         'if (is != note && !(is != 0 && env::defect("told by slot"))) continue;')]),
    ("stolen", "crash/lock_crash_test.cpp", [
        ("locks/memory_map.cpp", "    return sys::ofd_is_locked(file.fd(), layout::user_bytes + user);",
         '    if (defect("stolen")) return 0; // takes slow users for dead\n'
         "    return sys::ofd_is_locked(file.fd(), layout::user_bytes + user);"),
        ("locks/memory_map.cpp", "int const e = byte_lock::try_lock(fd, layout::user_bytes + user, lock_kind::exclusive);\n"
         "    if (e == 0) undo();",
         "int e = 0;\n"
         '    if (!defect("stolen")) e = byte_lock::try_lock(fd, layout::user_bytes + user, lock_kind::exclusive);\n'
         "    if (e == 0) undo();")]),
    ("no second look", "crash/lock_crash_test.cpp", [
        ("locks/map_protocol.hpp", "word = s.word.load(std::memory_order_seq_cst);\n      got =",
         'if (!env::defect("no second look")) word = s.word.load(std::memory_order_seq_cst);\n      got =')]),
    ("unverified", "crash/lock_crash_test.cpp", [
        ("locks/lock_files.cpp", "if (named == 1) return 0;", 'if (named == 1 || hooks::defect("unverified")) return 0;')]),
    ("leaves silently", "memory_model/map_test.cpp", [
        ("locks/map_protocol.hpp", "if (w.has_slept()) wake(s.turn, 1); // it may",
         'if (w.has_slept() && !env::defect("leaves silently")) wake(s.turn, 1); // it may')]),
    ("shares silently", "memory_model/map_test.cpp", [
        ("locks/map_protocol.hpp", "if (w.has_slept()) wake(slots_[i].turn, 1);",
         'if (w.has_slept() && !env::defect("shares silently")) wake(slots_[i].turn, 1);')]),
    ("teller stays", "memory_model/map_test.cpp", [
        ("locks/map_protocol.hpp", "if (was_told) untell_one(i, k);",
         'if (was_told && !env::defect("teller stays")) untell_one(i, k);')]),
    ("told stays", "memory_model/map_test.cpp", [
        ("locks/map_protocol.hpp", "while (teller_of(told, k) == user) {",
         'while (teller_of(told, k) == user && !env::defect("told stays")) {')]),
    ("no third look", "memory_model/map_test.cpp", [
        ("locks/map_protocol.hpp", "if (n.dead[k].load(std::memory_order_relaxed) == note) return true;",
         'if (n.dead[k].load(std::memory_order_relaxed) == note || env::defect("no third look")) return true;')]),
    ("update.undecided", "locks/update_files_test.cpp", [
        ("locks/update_files.cpp", "  e = others.load(root());",
         '  bool const decides = !hooks::defect("update.undecided");\n  e = decides ? others.load(root()) : 0;'),
        ("locks/update_files.cpp", "if (e == 0) e = decide(d);", "if (e == 0 && decides) e = decide(d);")]),
]
