// Shows     a library with sockets of its own, libcurl, driven by coroutines: each of its sockets is waited
//           for by a foreign_handle, which owns nothing of it, its timer by a timer of unio's, and a page
//           is a task.
// Run       build/release/examples/example_libcurl [URL...]; without arguments from a server of its own
// Read next <unio/foreign_handle.hpp>, docs/howto/foreign-descriptors.md, ../wrapped_callback/main.cpp

#include <unio/foreign_handle.hpp>
#include <unio/unio.hpp>

#include <curl/curl.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using unio::readiness_set;

namespace {

// ---- libcurl's multi interface, within the scope of one coroutine -----------------------------------------

class transfers {
 public:
  explicit transfers(unio::environment const& e) : group_(e), multi_(curl_multi_init()) {
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &on_socket);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &on_timer);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  }
  transfers(transfers const&) = delete;
  transfers& operator=(transfers const&) = delete;
  ~transfers() { curl_multi_cleanup(multi_); }

  unio::task<std::string> get(std::string url) {
    transfer t;
    std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> const easy(curl_easy_init(), &curl_easy_cleanup);
    curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &on_data);
    curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &t.page);
    curl_easy_setopt(easy.get(), CURLOPT_PRIVATE, &t);
    curl_multi_add_handle(multi_, easy.get());
    auto const waited = co_await t.has_ended.co_wait();
    curl_multi_remove_handle(multi_, easy.get()); // closes no socket that is waited for without saying so
    if (!waited) throw std::system_error(waited.error(), url);
    if (t.code != CURLE_OK) throw std::runtime_error(url + ": " + curl_easy_strerror(t.code));
    co_return std::move(t.page);
  }

  // After the last page: connections that libcurl keeps are not waited for any more.
  unio::task<> end() {
    group_.request_stop();
    co_await group_.co_join();
  }

 private:
  struct transfer {
    unio::event has_ended;
    CURLcode code = CURLE_OK;
    std::string page;
  };

  // One socket of libcurl's, as long as libcurl wants to know about it.
  struct watched {
    unio::foreign_handle socket;
    readiness_set wanted = readiness_set::none;
    bool waits = false;
    bool is_over = false;
  };

  unio::task<> watch(std::shared_ptr<watched> w) {
    int const fd = w->socket.watched();
    while (!w->is_over) {
      w->waits = true;
      auto const is = co_await w->socket.co_wait(w->wanted);
      w->waits = false;
      if (w->is_over) co_return;
      if (!is) co_return; // asked to stop
      int what = 0;
      if (has(*is, readiness_set::readable)) what |= CURL_CSELECT_IN;
      if (has(*is, readiness_set::writable)) what |= CURL_CSELECT_OUT;
      if (has(*is, readiness_set::error) || has(*is, readiness_set::hang_up)) what |= CURL_CSELECT_ERR;
      act(fd, what); // which may change what is wanted, and call on_socket()
    }
  }

  // Called by libcurl: what it wants of one socket has changed.
  static int on_socket(CURL*, curl_socket_t fd, int what, void* self_, void* known) {
    auto& self = *static_cast<transfers*>(self_);
    auto* const before = static_cast<watched*>(known);
    readiness_set wanted = readiness_set::none;
    if ((what & CURL_POLL_IN) != 0 && what != CURL_POLL_REMOVE) wanted |= readiness_set::readable;
    if ((what & CURL_POLL_OUT) != 0 && what != CURL_POLL_REMOVE) wanted |= readiness_set::writable;
    if (before != nullptr && what != CURL_POLL_REMOVE && !before->waits) {
      before->wanted = wanted; // its own wait has just ended, and goes on with that
      return 0;
    }
    if (before != nullptr) { // libcurl closes it next, or the wait is for something else
      before->is_over = true;
      (void)before->socket.close();
      curl_multi_assign(self.multi_, fd, nullptr);
    }
    if (what == CURL_POLL_REMOVE) return 0;
    auto watched_now = unio::foreign_handle::watch(fd);
    if (!watched_now) return -1; // libcurl ends its transfers
    auto next = std::make_shared<watched>();
    next->socket = std::move(*watched_now);
    next->wanted = wanted;
    curl_multi_assign(self.multi_, fd, next.get());
    self.group_.start(self.watch(std::move(next)));
    return 0;
  }

  // Called by libcurl: when it wants to be called again. It replaces what it said before.
  static int on_timer(CURLM*, long ms, void* self_) {
    auto& self = *static_cast<transfers*>(self_);
    ++self.timers_;
    if (ms >= 0) self.group_.start(self.sleep(std::chrono::milliseconds(ms), self.timers_));
    return 0;
  }
  unio::task<> sleep(std::chrono::milliseconds span, int number) {
    // Not within on_timer(), from which libcurl must not be called.
    auto const slept = co_await unio::co_sleep(std::max(span, 1ms));
    if (slept && number == timers_) act(CURL_SOCKET_TIMEOUT, 0);
  }

  static std::size_t on_data(char* data, std::size_t size, std::size_t n, void* page) {
    static_cast<std::string*>(page)->append(data, size * n);
    return size * n;
  }

  void act(curl_socket_t fd, int what) {
    int running = 0;
    curl_multi_socket_action(multi_, fd, what, &running);
    int left = 0;
    while (CURLMsg const* const m = curl_multi_info_read(multi_, &left)) {
      if (m->msg != CURLMSG_DONE) continue;
      transfer* t = nullptr;
      curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
      t->code = m->data.result;
      t->has_ended.set();
    }
  }

  unio::task_group group_;
  CURLM* multi_;
  int timers_ = 0;
};

// ---- a server to talk to ----------------------------------------------------------------------------------

unio::task<> serve(unio::socket_handle socket) {
  std::string request;
  std::array<char, 1024> room;
  for (;;) {
    for (std::size_t end = 0; (end = request.find("\r\n\r\n")) != std::string::npos;) {
      std::string const body = std::string("page ").append(request, 4, request.find(' ', 4) - 4);
      request.erase(0, end + 4);
      (void)co_await unio::co_sleep(20ms); // so that libcurl has to wait
      std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: ";
      answer.append(std::to_string(body.size())).append("\r\n\r\n").append(body);
      if (!co_await unio::co_write(socket, answer)) co_return;
    }
    auto const got = co_await socket.co_read(room, 30s);
    if (!got || got->empty()) co_return;
    for (auto const& b : *got) request.append(reinterpret_cast<char const*>(b.data()), b.size());
  }
}

unio::task<> get_and_print(transfers& all, std::string url, int& failed) {
  try {
    std::string const page = co_await all.get(url);
    std::printf("%s: %zu bytes: %.40s\n", url.c_str(), page.size(), page.c_str());
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    ++failed;
  }
}

unio::task<int> get_all(std::vector<std::string> urls) {
  auto const& here = co_await unio::this_coro::environment;
  unio::task_group server(here);
  if (urls.empty()) {
    auto listening = std::make_shared<unio::listening_socket_handle>(
        unio::listening_socket_handle::listen(unio::endpoint::ipv4({127, 0, 0, 1}, 0)).value());
    std::string const at = "http://" + unio::to_string(listening->local_endpoint().value());
    for (char const* const page : {"/one", "/two", "/three", "/four", "/five"}) urls.push_back(at + page);
    auto const accept = [](std::shared_ptr<unio::listening_socket_handle> l,
                           unio::task_group& group) -> unio::task<> {
      auto const start = [&](unio::socket_handle s) { group.start(serve(std::move(s))); };
      (void)co_await unio::co_for_each_connection(*l, start);
    };
    server.start(accept(listening, server));
  }
  transfers all(here);
  int failed = 0;
  {
    unio::task_group pages(here);
    for (std::string& url : urls) pages.start(get_and_print(all, std::move(url), failed));
    co_await pages.co_join();
  }
  co_await all.end();
  server.request_stop();
  co_await server.co_join();
  co_return failed;
}

} // namespace

int main(int argc, char** argv) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  int const failed = unio::run(get_all({argv + 1, argv + argc}));
  curl_global_cleanup();
  return failed == 0 ? 0 : 1;
}
