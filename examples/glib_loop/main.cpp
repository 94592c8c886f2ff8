// Shows     unio within GLib's main loop, and so within GTK's: tasks run where the widgets' handlers do. What
//           GLib needs for it is a source of forty lines.
// Run       build/release/examples/example_glib_loop
// Read next <unio/outer_loop.hpp>, ../epoll_loop/main.cpp, docs/howto/other-loops.md

#include <unio/outer_loop.hpp>
#include <unio/unio.hpp>

#include <glib.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <new>
#include <thread>
#include <utility>

using namespace std::chrono_literals;

namespace {

// ---- the source -------------------------------------------------------------------------------------------

struct unio_source {
  GSource base; // GLib's part comes first
  gpointer tag; // of the descriptor
  unio::outer_loop loop;
};
unio_source& ours(GSource* s) { return *reinterpret_cast<unio_source*>(s); }

// Before GLib waits. TRUE: there is something to do at once.
gboolean prepare(GSource* s, gint* timeout_ms) {
  *timeout_ms = -1; // the descriptor has the deadlines, too
  auto const time = ours(s).loop.before_wait();
  return !time || *time == 0ns;
}

// After it has waited.
gboolean check(GSource* s) { return g_source_query_unix_fd(s, ours(s).tag) != 0; }

gboolean dispatch(GSource* s, GSourceFunc, gpointer) {
  auto const ran = ours(s).loop.multiplexer().try_run();
  return ran ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

void finalize(GSource* s) { ours(s).loop.~outer_loop(); }

// The source for the multiplexer of this thread, which has to be the one that runs `context`.
GSource* attach_unio(GMainContext* context) {
  static GSourceFuncs functions{prepare, check, dispatch, finalize, nullptr, nullptr};
  auto made = unio::outer_loop::create();
  if (!made) return nullptr;
  GSource* const s = g_source_new(&functions, sizeof(unio_source));
  new (&ours(s).loop) unio::outer_loop(std::move(*made));
  ours(s).tag = g_source_add_unix_fd(s, ours(s).loop.descriptor(), G_IO_IN);
  g_source_set_can_recurse(s, TRUE); // a dialog runs the loop within a handler
  g_source_attach(s, context);
  return s;
}

// ---- the program ------------------------------------------------------------------------------------------

unio::task<> count(std::atomic<bool>& ended) {
  for (int i = 1; i != 4; ++i) {
    (void)co_await unio::co_sleep(10ms);
    std::printf("task: %d\n", i);
  }
  ended = true;
  ended.notify_one();
}

gboolean tick(gpointer ticks) {
  return ++*static_cast<int*>(ticks) == 3 ? G_SOURCE_REMOVE : G_SOURCE_CONTINUE;
}

} // namespace

int main() {
  GMainLoop* const loop = g_main_loop_new(nullptr, FALSE);
  GSource* const source = attach_unio(nullptr);
  if (source == nullptr) return 1;
  int ticks = 0;
  g_timeout_add(5, &tick, &ticks); // GLib's own go on as before
  unio::io_multiplexer& here = unio::this_thread::multiplexer();
  std::atomic<bool> ended = false;
  std::thread other([&] {
    ended.wait(false);
    std::this_thread::sleep_for(5ms); // the loop sleeps again, and nothing else will wake it
    (void)here.post([&] { g_main_loop_quit(loop); });
  });
  unio::async_run(here, count(ended));
  g_main_loop_run(loop);
  other.join();
  std::printf("GLib's timer ran %d times; work posted by another thread ended the loop\n", ticks);
  g_source_destroy(source);
  g_source_unref(source);
  g_main_loop_unref(loop);
  return ticks == 3 ? 0 : 1;
}
